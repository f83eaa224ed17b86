// The threads of one opened CPU device. The caller is worker 0. Between two launches the others spin briefly, so that a
// launch that follows soon costs no system call, and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "backends/cpu/crowd.h"
#include "backends/cpu/kernel.h"

namespace gabbro::cpu {

class ThreadPool {
 public:
  // `cores` is how many may run at once; with more workers than that, a waiting worker gives its core away at once.
  // After a fork the child's pool starts new threads with the first launch; a launch that runs meanwhile in
  // another thread delays the fork.
  ThreadPool(int workers, int cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return team_.workers; }

  // Calls task(worker) on every worker and returns when all have ended; concurrent callers take turns. The task must
  // not throw. False when `cancel` (may be null) was seen to be true at the last barrier, or at the end.
  template <class Task>
  bool run(const Task& task, const std::atomic<bool>* cancel = nullptr) {
    const auto call = [](const void* context, Worker& worker) {
      (*static_cast<const std::remove_cvref_t<Task>*>(context))(worker);
    };
    return run_erased(call, &task, cancel);
  }

  // Runs on the calling thread, as a team of one: for work that ends before the others are awake.
  template <class Task>
  bool run_alone(const Task& task, const std::atomic<bool>* cancel = nullptr) {
    const std::lock_guard lock(turn_);
    alone_.cancel = cancel;
    alone_.stopped = cancel != nullptr && cancel->load(std::memory_order_relaxed);
    Worker worker(alone_, 0);
    task(worker);
    worker.barrier();
    return !alone_.stopped;
  }

  // As run(), or as run_alone() while other programs keep the cores busy: for work that takes one core a few
  // milliseconds at most, less than a worker then waits for its core.
  template <class Task>
  bool run_where_sooner(const Task& task, const std::atomic<bool>* cancel = nullptr) {
    return crowd_.is_crowded() ? run_alone(task, cancel) : run(task, cancel);
  }

  // Within a task of run(), without waiting for others: calls task(worker) on the caller alone, as a team of one.
  template <class Task>
  void run_alone_inside(const Task& task) {
    alone_.cancel = team_.cancel;
    alone_.stopped = false;
    Worker worker(alone_, 0);
    task(worker);
    worker.barrier();
  }

  // Runs next to the pool's work, without waiting for it.
  template <class Task>
  static void run_apart(const Task& task) {
    TeamState team;
    team.taken = std::make_unique<TeamState::Taken[]>(1);
    Worker worker(team, 0);
    task(worker);
  }

 private:
  using Function = void (*)(const void* context, Worker& worker);

  bool run_erased(Function function, const void* context, const std::atomic<bool>* cancel);
  void serve(int index, uint32_t seen);  // the launches after number `seen`
  uint32_t wait_for_launch(uint32_t seen) const;
  void start_threads();
  void close();

  friend class PoolsAtFork;
  void abandon_threads();

  TeamState team_;
  TeamState alone_;
  Crowd crowd_;
  Function function_ = nullptr;  // null: the pool closes
  const void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> launch_{0};
  std::mutex turn_;
  std::vector<std::thread> threads_;
};

}  // namespace gabbro::cpu
