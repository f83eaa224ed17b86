// Streams and their work. Work of one stream is done in its order and after what it waits for; among the streams a seed
// chooses. Nothing is done at once: calls of the host and waits do the work that is left, as late as a card may.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <hip/hip_runtime_api.h>

namespace emulated_hip {

using Lock = std::unique_lock<std::mutex>;

// One piece of work.
struct Task {
  std::function<void()> run;                 // may be empty
  std::vector<std::shared_ptr<Task>> after;  // of other streams
  bool done = false;
  bool stuck = false;  // never ends
  std::chrono::steady_clock::time_point finished;
};
using TaskRef = std::shared_ptr<Task>;

struct Capture;  // graphs.h

struct Stream {
  int device = 0;
  unsigned flags = 0;
  std::deque<TaskRef> work;  // not done, in order
  TaskRef tail;              // newest; null: none ever
  std::shared_ptr<Capture> capture;
  bool stale_capture = false;  // ended an invalidated capture
};

struct Event {
  TaskRef task;  // null: never recorded
  unsigned flags = 0;
  std::shared_ptr<Capture> capture;  // recorded in it
  std::vector<size_t> capture_nodes;
};

// All functions need the lock, which is open while a task runs or a thread waits.
class Engine {
 public:
  explicit Engine(uint64_t seed) : random_(seed) {}

  Stream* add_stream(int device, unsigned flags);
  void remove_stream(Lock& lock, Stream* stream);  // its work is done first
  bool has_stream(const Stream* stream) const;
  Stream* null_stream(int device);
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  TaskRef enqueue(Lock& lock, Stream& stream, std::function<void()> run, std::vector<TaskRef> after = {});

  // Returns when the task is done or the device has failed.
  void wait(Lock& lock, const TaskRef& task);
  void wait_for_all(Lock& lock, int device);
  // A wait that never ends.
  [[noreturn]] void wait_for_ever(Lock& lock);
  // Does some of the work, as time passes for a host that asks.
  void advance(Lock& lock);

  // The error of a fault, which stays; hipSuccess before one.
  hipError_t fault() const { return fault_; }
  void fail(hipError_t error) {
    if (fault_ == hipSuccess) fault_ = error;
    progress_.notify_all();
  }

 private:
  bool step(Lock& lock);

  std::vector<std::unique_ptr<Stream>> streams_;
  std::mt19937_64 random_;
  std::condition_variable progress_;
  bool running_ = false;  // a task
  hipError_t fault_ = hipSuccess;
};

}  // namespace emulated_hip
