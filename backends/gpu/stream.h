// A stream of a GPU: its queue, the counters of its launches, and the graphs of launch lists that were captured on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "backends/gpu/graph_cache.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

class GpuStream {
 public:
  // Allocates the counters of its launches. Throws ApiError.
  GpuStream(api::Context* context, GraphPolicy& graphs);
  ~GpuStream();  // waits for its work
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  // Held while the queue is used: what another thread enqueues must not enter a graph that is being captured.
  std::mutex& mutex() { return mutex_; }
  api::Queue* queue() { return queue_; }

  // Enqueues the launches. False when `cancel` was seen to be true meanwhile; some of them may have been done then.
  bool execute(const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel);

  // To be called before a kernel goes away: drops the graphs that name it.
  void forget_graphs_of(const void* kernel);
  // For want of memory. Returns how many graphs there were.
  size_t drop_graphs();
  size_t graph_count();

  // Waits for its work; the mutex is held. Throws ApiError.
  void synchronize();
  // Waits by `wait`, which waits for all of the queue's work in another manner.
  void wait_by(const std::function<void()>& wait);
  // Waits for its work, whose failure is of no interest any more.
  void drain();
  // After a wait for its work: the first of the counters that is not zero, and its value.
  struct Counter {
    size_t index;
    uint32_t value;
  };
  std::optional<Counter> nonzero_counter();

 private:
  // `ahead`: see Launcher.
  void enqueue(const abi::Launch& launch, const WrittenMemory* ahead);
  void clear_counters();

  api::Context* const context_;
  uint32_t* counters_;
  bool counters_unknown_ = false;  // launches that use them may have been left out
  api::Queue* queue_ = nullptr;
  std::optional<GraphCache> graphs_;
  std::mutex mutex_;
};

// The stream `later` goes on after all that `earlier` was given so far.
void order(GpuStream& later, GpuStream& earlier, api::Event* event);

}  // namespace gabbro::gpu
