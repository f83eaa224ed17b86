// Carries out the work of the simulator's streams in an order that a seed chooses among those that are allowed: work of
// one stream in its order, and what waits for a marker after it. Seed 0: everything at once, when it is enqueued.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>

namespace gabbro::gpu::sim {

class Scheduler {
 public:
  // A point in a stream's work.
  struct Marker {
    bool reached = false;
  };
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Marker> after;  // may be null
  };
  using Stream = std::list<std::deque<Work>>::iterator;

  explicit Scheduler(uint64_t seed) { set_seed(seed); }
  // That of the simulator's devices.
  static Scheduler& shared();

  // Takes effect where no stream has work.
  void set_seed(uint64_t seed);
  bool is_deferred();  // a seed that is not 0

  Stream add_stream();
  void remove_stream(Stream stream);  // does its work first

  // `work` must not throw, and must not call the scheduler.
  void enqueue(Stream stream, std::function<void()> work);
  std::shared_ptr<Marker> mark(Stream stream);
  void wait(Stream stream, std::shared_ptr<Marker> marker);

  // These do the work of the streams, in any order, until no work is left on this one, until the marker is reached, or
  // all is done.
  void finish(Stream stream);
  void finish(const Marker& marker);
  void finish_all();

 private:
  void push(Stream stream, Work work);
  bool step();

  std::mutex mutex_;
  std::list<std::deque<Work>> streams_;
  std::mt19937_64 random_;
  bool deferred_ = false;
};

}  // namespace gabbro::gpu::sim
