#include "backends/gpu/stream.h"

#include <algorithm>
#include <span>

#include "backends/gpu/accesses.h"

namespace gabbro::gpu {
namespace {

// The words that tell lists apart, one after the other, until visit(word) says false: whether it never did. The kernels
// come first, so that those of a recorded list are found without knowing its launches.
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

uint32_t* make_counters(api::Context* context) {
  void* memory = api::allocate(context, kCounters * sizeof(uint32_t));
  if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for the stream's counters");
  return static_cast<uint32_t*>(memory);
}

}  // namespace

GpuStream::GpuStream(api::Context* context) : context_(context), counters_(make_counters(context)) {
  try {
    queue_ = api::create_queue(context);
    const std::vector<uint32_t> zeros(kCounters);
    api::copy_to_device(queue_, counters_, zeros.data(), zeros.size() * sizeof(uint32_t));
  } catch (...) {
    if (queue_ != nullptr) api::destroy_queue(queue_);
    api::release(context_, counters_);
    throw;
  }
}

GpuStream::~GpuStream() {
  forget_graphs();
  drain();
  api::destroy_queue(queue_);
  api::release(context_, counters_);
}

void GpuStream::drain() {
  const std::lock_guard lock(mutex_);
  try {
    api::synchronize(queue_);
  } catch (const ApiError&) {
    // The device failed before; what is left is to free what can be freed.
  }
}

void GpuStream::enqueue(const abi::Launch& launch, const WrittenMemory* ahead) {
  const auto& kernel = *static_cast<const Kernel*>(launch.kernel);
  if (api::AccessCheck* const check = api::access_check())
    check->enqueued(queue_, kernel.implementation, accesses_of(launch, kernel.scratch_bytes));
  kernel.enqueue(launch, {queue_, counters_, ahead});
}

void GpuStream::drop(Recorded& recorded) {
  if (recorded.graph != nullptr) api::destroy_graph(recorded.graph);
  recorded.graph = nullptr;
}

// Whether the launches went out as a graph.
bool GpuStream::replay(const abi::Launch* launches, int32_t count) {
  if (count < kGraphLaunches) return false;
  // Steps of one batch are the same list again and again.
  if (last_ != nullptr && last_->graph != nullptr && is_signature_of(last_->signature, launches, count)) {
    last_->used = ++clock_;
    api::replay(queue_, last_->graph);
    return true;
  }
  last_ = nullptr;
  std::vector<const void*> signature = signature_of(launches, count);
  Recorded& recorded = recorded_[hash_of(signature)];
  recorded.used = ++clock_;
  if (recorded.signature != signature) {  // new, or another list with the same hash
    drop(recorded);
    recorded.signature = std::move(signature);
    recorded.launches = count;
    if (recorded_.size() > kMaxGraphs) {
      const auto oldest = std::ranges::min_element(recorded_, {}, [](const auto& entry) { return entry.second.used; });
      drop(oldest->second);
      recorded_.erase(oldest);
    }
    return false;
  }
  if (recorded.graph == nullptr) {
    if (!api::begin_capture(queue_)) return false;
    WrittenMemory ahead;
    for (int32_t i = 0; i < count; ++i) {
      enqueue(launches[i], &ahead);
      ahead.add(launches[i], static_cast<const Kernel*>(launches[i].kernel)->scratch_bytes);
    }
    recorded.graph = api::end_capture(queue_);
  }
  last_ = &recorded;
  api::replay(queue_, recorded.graph);
  return true;
}

void GpuStream::forget_graphs() {
  last_ = nullptr;
  for (auto& [hash, recorded] : recorded_) drop(recorded);
  recorded_.clear();
}

void GpuStream::forget_graphs_of(const void* kernel) {
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
  for (auto entry = recorded_.begin(); entry != recorded_.end();) {
    Recorded& recorded = entry->second;
    const auto last = recorded.signature.begin() + recorded.launches;
    if (std::find(recorded.signature.begin(), last, kernel) == last) {
      ++entry;
      continue;
    }
    drop(recorded);
    entry = recorded_.erase(entry);
  }
}

size_t GpuStream::graph_count() {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(recorded_, [](const auto& e) { return e.second.graph != nullptr; }));
}

bool GpuStream::execute(const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(mutex_);
  const auto canceled = [&] { return cancel != nullptr && cancel->load(std::memory_order_relaxed); };
  if (canceled()) return false;
  if (replay(launches, count)) return true;
  // A list counts as run once only when all of it was: a kernel's first launch may have to wait for the queue, which
  // nothing that is captured may.
  struct Attempt {
    GpuStream& stream;
    bool whole = false;
    ~Attempt() {
      api::set_cancel_flag(stream.queue_, nullptr);
      if (!whole) stream.forget_graphs();
    }
  } attempt{*this};
  api::set_cancel_flag(queue_, cancel);
  for (int32_t i = 0; i < count && !canceled(); ++i) enqueue(launches[i], nullptr);
  return attempt.whole = !canceled();
}

void order(GpuStream& later, GpuStream& earlier, api::Event* event) {
  {
    const std::lock_guard lock(earlier.mutex());
    api::record(earlier.queue(), event);
  }
  const std::lock_guard lock(later.mutex());
  api::wait(later.queue(), event);
}

}  // namespace gabbro::gpu
