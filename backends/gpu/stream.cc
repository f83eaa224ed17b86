#include "backends/gpu/stream.h"

#include <algorithm>

#include "backends/gpu/accesses.h"

namespace gabbro::gpu {
namespace {

// The kernels come first, so that those of a recorded list are found without knowing its launches.
std::vector<const void*> signature_of(const abi::Launch* launches, int32_t count) {
  std::vector<const void*> signature;
  for (int32_t i = 0; i < count; ++i) signature.push_back(launches[i].kernel);
  for (int32_t i = 0; i < count; ++i) {
    const abi::Launch& launch = launches[i];
    signature.push_back(launch.scratch);
    for (int32_t k = 0; k < launch.input_count; ++k) signature.push_back(launch.inputs[k].data);
    for (int32_t k = 0; k < launch.output_count; ++k) signature.push_back(launch.outputs[k].data);
  }
  return signature;
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

void GpuStream::enqueue(const abi::Launch* launches, int32_t count) {
  const Launcher run{queue_, counters_};
  api::AccessCheck* const check = api::access_check();
  for (int32_t i = 0; i < count; ++i) {
    const auto& kernel = *static_cast<const Kernel*>(launches[i].kernel);
    if (check != nullptr)
      check->enqueued(queue_, kernel.implementation, accesses_of(launches[i], kernel.scratch_bytes));
    kernel.enqueue(launches[i], run);
  }
}

void GpuStream::drop(Recorded& recorded) {
  if (recorded.graph != nullptr) api::destroy_graph(recorded.graph);
  recorded.graph = nullptr;
}

// Whether the launches went out as a graph.
bool GpuStream::replay(const abi::Launch* launches, int32_t count) {
  if (count < kGraphLaunches) return false;
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
    enqueue(launches, count);
    recorded.graph = api::end_capture(queue_);
  }
  api::replay(queue_, recorded.graph);
  return true;
}

void GpuStream::forget_graphs() {
  for (auto& [hash, recorded] : recorded_) drop(recorded);
  recorded_.clear();
}

void GpuStream::forget_graphs_of(const void* kernel) {
  const std::lock_guard lock(mutex_);
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
  for (int32_t i = 0; i < count && !canceled(); ++i) enqueue(launches + i, 1);
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
