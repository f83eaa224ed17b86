#include "backends/gpu/graph_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "backends/gpu/kernel.h"
#include "backends/gpu/launch_names.h"

namespace gabbro::gpu {
namespace {

// Calls visit(word) with the words that tell lists apart, until it returns false; returns whether it never did. The
// kernels come first, so that a recorded list's kernels are found without knowing its launches.
template <class Visit>
bool for_words(const abi::Launch* launches, int32_t count, Visit visit) {
  const std::span list(launches, static_cast<size_t>(count));
  const auto visit_data = [&](const abi::TensorView& view) { return visit(view.data); };
  return std::ranges::all_of(list, [&](const abi::Launch& launch) { return visit(launch.kernel); }) &&
         std::ranges::all_of(list, [&](const abi::Launch& launch) {
           return visit(launch.scratch) && std::all_of(launch.inputs, launch.inputs + launch.input_count, visit_data) &&
                  std::all_of(launch.outputs, launch.outputs + launch.output_count, visit_data);
         });
}

std::vector<const void*> signature_of(const abi::Launch* launches, int32_t count) {
  std::vector<const void*> signature;
  for_words(launches, count, [&](const void* word) {
    signature.push_back(word);
    return true;
  });
  return signature;
}

bool is_signature_of(const std::vector<const void*>& signature, const abi::Launch* launches, int32_t count) {
  size_t at = 0;
  return for_words(launches, count,
                   [&](const void* word) { return at < signature.size() && signature[at++] == word; }) &&
         at == signature.size();
}

// FNV-1a over the words.
uint64_t hash_of(const std::vector<const void*>& signature) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const void* word : signature) hash = (hash ^ reinterpret_cast<uintptr_t>(word)) * 0x100000001b3;
  return hash;
}

// "a graph of 240 launches (rms_norm to linear q4_0)"
std::string describe(const abi::Launch* launches, int32_t count) {
  const auto name = [&](int32_t i) { return static_cast<const Kernel*>(launches[i].kernel)->launch_name; };
  return fmt::format("a graph of {} launches ({} to {})", count, name(0), name(count - 1));
}

}  // namespace

// Forgets the list that was used the longest ago, of all or of those with a graph.
void GraphCache::drop_oldest(bool with_graph) {
  const auto age = [&](const auto& entry) {
    return with_graph && entry.second.graph == nullptr ? UINT64_MAX : entry.second.used;
  };
  const auto oldest = std::ranges::min_element(recorded_, {}, age);
  recorded_.erase(oldest);
}

bool GraphCache::replay(const abi::Launch* launches, int32_t count) {
  if (count < kGraphLaunches) return false;
  if (!policy_.enabled()) {
    forget();
    recorded_.clear();
    return false;
  }
  // Steps of one batch are the same list again and again.
  if (last_ != nullptr && last_->graph != nullptr && is_signature_of(last_->signature, launches, count))
    return launch(*last_);
  last_ = nullptr;
  std::vector<const void*> signature = signature_of(launches, count);
  Recorded& recorded = recorded_[hash_of(signature)];
  recorded.used = ++clock_;
  if (recorded.signature != signature) {  // new, or another list with the same hash
    recorded = {.signature = std::move(signature), .launches = count, .graph = {}, .used = clock_};
    if (recorded_.size() > kMaxLists) drop_oldest(false);
    return false;
  }
  if (recorded.never || (recorded.graph == nullptr && !capture(recorded, launches, count))) return false;
  last_ = &recorded;
  return launch(recorded);
}

bool GraphCache::capture(Recorded& recorded, const abi::Launch* launches, int32_t count) {
  if (policy_.spare_bytes() > 0 && api::free_memory(context_) < policy_.spare_bytes()) return false;
  if (!policy_.allowed()) return false;
  while (graph_count() >= policy_.most_graphs()) drop_oldest(true);
  try {
    Capture capture(queue_);
    WrittenMemory ahead;
    for (int32_t i = 0; i < count; ++i) {
      enqueue_(launches[i], &ahead);
      ahead.add(launches[i], static_cast<const Kernel*>(launches[i].kernel)->scratch_bytes);
    }
    recorded.graph = capture.end();
    recorded.name = keep_name(describe(launches, count));
  } catch (const ApiError& error) {
    give_up(recorded, error);
    if (error.code == abi::StatusCode::kLost) throw;
    return false;
  }
  return true;
}

bool GraphCache::launch(Recorded& recorded) {
  recorded.used = ++clock_;
  note_launch(recorded.name);
  try {
    api::replay(queue_, recorded.graph.get());
  } catch (const ApiError& error) {
    give_up(recorded, error);
    if (error.code != abi::StatusCode::kOutOfMemory) throw;
    for (auto& [hash, other] : recorded_) other.graph.reset();  // their arguments are in the device's memory
    return false;
  }
  return true;
}

void GraphCache::give_up(Recorded& recorded, const ApiError& error) {
  last_ = nullptr;
  recorded.never = true;
  recorded.graph.reset();
  policy_.failed(error.what());
}

size_t GraphCache::forget() {
  last_ = nullptr;
  const size_t dropped = graph_count();
  for (auto& [hash, recorded] : recorded_) recorded.graph.reset();
  std::erase_if(recorded_, [](const auto& entry) { return !entry.second.never; });
  return dropped;
}

void GraphCache::forget_kernel(const void* kernel) {
  last_ = nullptr;
  std::erase_if(recorded_, [&](const auto& entry) {
    const Recorded& recorded = entry.second;
    const auto end = recorded.signature.begin() + recorded.launches;
    return std::find(recorded.signature.begin(), end, kernel) != end;
  });
}

size_t GraphCache::graph_count() const {
  return static_cast<size_t>(std::ranges::count_if(recorded_, [](const auto& e) { return e.second.graph != nullptr; }));
}

}  // namespace gabbro::gpu
