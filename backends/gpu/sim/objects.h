// The runtime's objects, as the simulator has them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gpu/api.h"
#include "backends/gpu/sim/block.h"
#include "backends/gpu/sim/ordering.h"
#include "backends/gpu/sim/scheduler.h"

namespace gabbro::gpu::api {

struct Context {
  uint32_t wave;
  uint64_t failing_allocation, failing_launch, lost_after, aborting_launch, hanging_launch, damaged_read, damaged_peer,
      failing_peer;
  uint64_t failing_mapping, failing_unmapping, range_limit, slow_peer;
  bool reaches_others;
  std::atomic<uint64_t> allocations{0}, launches{0}, reads{0}, peer_copies{0}, mappings{0}, unmappings{0};
  std::atomic<bool> lost{false};
  // The Nth capture of a graph fails; and what else is wrong with graphs.
  uint64_t failing_capture = 0;
  std::string graph_fault;
  std::atomic<uint64_t> captures{0};
  std::atomic<std::chrono::steady_clock::rep> hangs_until{0};  // waits have no end before
  std::mutex mutex;
  std::string failure;  // of work: reported by whatever waits next, and by all that comes after

  void require_present() const {
    if (lost) throw ApiError(abi::StatusCode::kLost, "sim: the device was lost");
  }
  bool hangs() const { return std::chrono::steady_clock::now().time_since_epoch().count() < hangs_until; }
  // Keeps the first.
  void fail(const std::string& message) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = message;
  }
  bool has_failed() {
    const std::lock_guard lock(mutex);
    return !failure.empty();
  }
};

// Work that is enqueued again at each replay.
struct Graph {
  std::vector<std::function<void(Queue*)>> work;
};

struct Queue {
  Context* context;
  sim::Scheduler::Stream stream;
  sim::Ordering::Actor actor;
  std::unique_ptr<Graph> captured;  // while work is captured
  struct Overwritten {
    void* target = nullptr;
    std::vector<std::byte> bytes;
  };
  std::shared_ptr<Overwritten> overwritten;  // by the last copy to the device, where graphs are stale
  std::atomic<const std::atomic<bool>*> cancel{nullptr};

  // Enqueues work under a name, with its accesses. Throws where these are not ordered.
  void declare(const std::string& name, std::span<const Access> accesses);
  // Protects pinned memory that the copy which was declared last reads, or writes.
  void guard(const char* name, const void* host, size_t bytes, bool reads);
  void enqueue(std::function<void()> work) { sim::Scheduler::shared().enqueue(stream, std::move(work)); }
};

struct Event {
  Context* context;
  std::shared_ptr<sim::Scheduler::Marker> marker;  // null: never recorded
  sim::Clock time;
};

struct Gemm {
  GemmShape shape;
  std::string library;
};
struct Convolution {
  ConvShape shape;
  std::string library;
};
struct Function {
  const sim::Registration* kernel;
};
struct Module {
  uint32_t wave;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

}  // namespace gabbro::gpu::api
