#include "backends/gpu/stream.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "backends/gpu/accesses.h"
#include "backends/gpu/launch_names.h"

namespace gabbro::gpu {
namespace {

uint32_t* make_counters(api::Context* context) {
  void* memory = api::allocate(context, kCounters * sizeof(uint32_t));
  if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for the stream's counters");
  return static_cast<uint32_t*>(memory);
}

}  // namespace

GpuStream::GpuStream(api::Context* context, GraphPolicy& graphs)
    : context_(context), counters_(make_counters(context)) {
  try {
    queue_ = api::create_queue(context);
    clear_counters();
    graphs_.emplace(context, queue_, graphs,
                    [this](const abi::Launch& launch, const WrittenMemory* ahead) { enqueue(launch, ahead); });
  } catch (...) {
    if (queue_ != nullptr) api::destroy_queue(queue_);
    api::release(context_, counters_);
    throw;
  }
}

GpuStream::~GpuStream() {
  drain();
  graphs_.reset();
  api::destroy_queue(queue_);
  api::release(context_, counters_);
}

void GpuStream::clear_counters() {
  static const std::vector<uint32_t> zeros(kCounters);
  api::copy_to_device(queue_, counters_, zeros.data(), zeros.size() * sizeof(uint32_t));
  counters_unknown_ = false;
}

std::optional<GpuStream::Counter> GpuStream::nonzero_counter() {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> found(kCounters);
  api::copy_to_host(queue_, found.data(), counters_, found.size() * sizeof(uint32_t));
  synchronize();
  const auto counter = std::ranges::find_if(found, [](uint32_t value) { return value != 0; });
  if (counter == found.end()) return std::nullopt;
  return Counter{static_cast<size_t>(counter - found.begin()), *counter};
}

void GpuStream::synchronize() {
  wait_by([this] { api::synchronize(queue_); });
}

void GpuStream::wait_by(const std::function<void()>& wait) {
  try {
    wait();
  } catch (...) {
    counters_unknown_ = true;
    throw;
  }
}

void GpuStream::drain() {
  const std::lock_guard lock(mutex_);
  try {
    synchronize();
  } catch (const ApiError&) {
    // The device failed before; what is left is to free what can be freed.
  }
}

void GpuStream::enqueue(const abi::Launch& launch, const WrittenMemory* ahead) {
  const auto& kernel = *static_cast<const Kernel*>(launch.kernel);
  if (api::AccessCheck* const check = api::access_check())
    check->enqueued(queue_, kernel.implementation, accesses_of(launch, kernel.scratch_bytes));
  note_launch(kernel.launch_name);
  kernel.enqueue(launch, {queue_, counters_, ahead});
}

void GpuStream::forget_graphs_of(const void* kernel) {
  const std::lock_guard lock(mutex_);
  graphs_->forget_kernel(kernel);
}

size_t GpuStream::drop_graphs() {
  const std::lock_guard lock(mutex_);
  return graphs_->forget();
}

size_t GpuStream::graph_count() {
  const std::lock_guard lock(mutex_);
  return graphs_->graph_count();
}

bool GpuStream::execute(const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(mutex_);
  const auto canceled = [&] { return cancel != nullptr && cancel->load(std::memory_order_relaxed); };
  if (canceled()) return false;
  // A list counts as run once only when all of it was: a kernel's first launch may have to wait for the queue, which
  // nothing that is captured may.
  struct Attempt {
    GpuStream& stream;
    bool whole = false;
    ~Attempt() {
      if (whole) return;
      stream.graphs_->forget();
      stream.counters_unknown_ = true;
    }
  } attempt{*this};
  if (counters_unknown_) clear_counters();
  if (graphs_->replay(launches, count)) return attempt.whole = true;
  const std::unique_ptr<api::Queue, void (*)(api::Queue*)> flagged(
      queue_, [](api::Queue* queue) { api::set_cancel_flag(queue, nullptr); });
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
