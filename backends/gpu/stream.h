// A stream of a GPU: its queue, and the graphs of launch lists that were captured on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

class GpuStream {
 public:
  // Allocates the counters of its launches. Throws ApiError.
  explicit GpuStream(api::Context* context);
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
  size_t graph_count();
  // Waits for its work, whose failure is of no interest any more.
  void drain();

 private:
  // A list of launches that came before is captured when it comes again, and replayed from then on.
  struct Recorded {
    std::vector<const void*> signature;  // the kernels, then the addresses they work on
    int32_t launches = 0;
    api::Graph* graph = nullptr;
    uint64_t used = 0;
  };
  static constexpr size_t kMaxGraphs = 64;
  static constexpr int32_t kGraphLaunches = 8;  // shorter lists are not worth a graph

  static void drop(Recorded& recorded);
  // `ahead`: see Launcher.
  void enqueue(const abi::Launch& launch, const WrittenMemory* ahead);
  bool replay(const abi::Launch* launches, int32_t count);
  void forget_graphs();

  api::Context* const context_;
  uint32_t* counters_;
  api::Queue* queue_ = nullptr;
  std::unordered_map<uint64_t, Recorded> recorded_;  // by hash of the signature
  Recorded* last_ = nullptr;                         // that was replayed
  uint64_t clock_ = 0;
  std::mutex mutex_;
};

// The stream `later` goes on after all that `earlier` was given so far.
void order(GpuStream& later, GpuStream& earlier, api::Event* event);

}  // namespace gabbro::gpu
