#include "backends/cpu/pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gabbro::cpu {
namespace {

// A host that samples a token between two launches takes 10 to 100 µs; a wake-up out of a futex costs about 50 µs.
constexpr auto kSpinForLaunch = std::chrono::microseconds(200);

// Pauses (about 20 ns each on Zen 4) in a barrier before the core is given away: the pieces of a launch differ by less
// than this unless another process runs on the core.
constexpr int32_t kSpinInBarrier = 4000;

// Limits of expected memory: prefetched before the barrier, so that the memory is busy during it; and in all, which
// together with the kernels' working set fits in an L2 of 512 KiB.
constexpr size_t kExpectAtOnce = 16384;
constexpr size_t kExpectAtMost = 131072;
constexpr size_t kCacheLine = 64;
constexpr int kLinesPerPoll = 4;

// Turns given away in a barrier before the worker sleeps: what it waits for is then a long piece, or a crowded machine.
constexpr int kYieldsInBarrier = 64;

// The time that this thread has spent in barriers after their spins.
thread_local std::chrono::steady_clock::duration time_waited{};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

void reset(TeamState& team) {
  team.arrived.store(0, std::memory_order_relaxed);
  team.stopped = false;
  for (auto& set : team.loops)
    for (TeamState::Counter& counter : set) counter.next.store(0, std::memory_order_relaxed);
  for (int32_t worker = 0; worker < team.workers; ++worker)
    for (std::atomic<uint64_t>& items : team.taken[worker].items) items.store(0, std::memory_order_relaxed);
}

}  // namespace

// The pools of this process. The handlers of pthread_atfork have no argument, so there is one list for all: a fork
// waits for running launches, and in the child the pools forget the threads, which exist in the parent only.
class PoolsAtFork {
 public:
  static PoolsAtFork& list() {
    // Never destroyed, since pools may outlive static objects; in static memory, since the plugin may be unloaded.
    alignas(PoolsAtFork) static std::byte memory[sizeof(PoolsAtFork)];
    static PoolsAtFork& pools = *new (memory) PoolsAtFork;
    return pools;
  }
  void add(ThreadPool* pool) {
    const std::lock_guard lock(mutex_);
    pools_.push_back(pool);
  }
  void remove(ThreadPool* pool) {
    const std::lock_guard lock(mutex_);
    std::erase(pools_, pool);
    if (pools_.empty()) std::vector<ThreadPool*>().swap(pools_);
  }

 private:
  PoolsAtFork() {
    pthread_atfork([] { list().lock(); }, [] { list().unlock(); },
                   [] {
                     for (ThreadPool* pool : list().pools_) pool->abandon_threads();
                     list().unlock();
                   });
  }
  void lock() {
    mutex_.lock();
    for (ThreadPool* pool : pools_) pool->turn_.lock();
  }
  void unlock() {
    for (ThreadPool* pool : pools_) pool->turn_.unlock();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<ThreadPool*> pools_;
};

void Worker::barrier() {
  const uint32_t generation = team_.generation.load(std::memory_order_relaxed);
  if (team_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == team_.workers) {
    team_.stopped = canceled();
    team_.arrived.store(0, std::memory_order_relaxed);
    team_.generation.store(generation + 1, std::memory_order_release);
    if (team_.workers > 1) team_.generation.notify_all();
  } else {
    wait_for_others(generation);
  }
  reset_counters();
}

void Worker::wait_for_others(uint32_t generation) {
  const auto passed = [&] { return team_.generation.load(std::memory_order_acquire) != generation; };
  for (int i = 0; i < team_.spins; ++i) {
    if (passed()) return;
    if (!fetch_expected()) pause();
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kYieldsInBarrier && !passed(); ++i) std::this_thread::yield();
  while (!passed()) team_.generation.wait(generation, std::memory_order_acquire);
  time_waited += std::chrono::steady_clock::now() - start;
}

// This set is unused between the barrier that was just passed and the next one, so no one waits for its cache lines.
void Worker::reset_counters() {
  if (index_ == 0) {
    for (int i = 0; i < loop_; ++i) team_.loops[set_][i].next.store(0, std::memory_order_relaxed);
  }
  if (streamed_) team_.taken[index_].items[set_].store(0, std::memory_order_relaxed);
  loop_ = 0;
  streamed_ = false;
  set_ ^= 1;
}

void Worker::expect(std::span<const std::byte> memory) {
  const size_t first = std::min(memory.size(), kExpectAtOnce);
  for (size_t at = 0; at < first; at += kCacheLine) __builtin_prefetch(memory.data() + at);
  expected_ = memory.data() + first;
  expected_end_ = memory.data() + std::min(memory.size(), kExpectAtMost);
}

// Asks for a few cache lines more; false: there are none.
bool Worker::fetch_expected() {
  if (expected_ >= expected_end_) return false;
  for (int i = 0; i < kLinesPerPoll; ++i, expected_ += kCacheLine) __builtin_prefetch(expected_, 0, 2);
  return true;
}

ThreadPool::ThreadPool(int workers, int cores) {
  team_.workers = std::max(workers, 1);
  team_.taken = std::make_unique<TeamState::Taken[]>(static_cast<size_t>(team_.workers));
  alone_.taken = std::make_unique<TeamState::Taken[]>(1);
  team_.spins = team_.workers <= cores ? kSpinInBarrier : 0;
  start_threads();
  PoolsAtFork::list().add(this);
}

ThreadPool::~ThreadPool() {
  PoolsAtFork::list().remove(this);
  close();
}

void ThreadPool::start_threads() {
  const uint32_t seen = launch_.load(std::memory_order_relaxed);
  try {
    threads_.reserve(team_.workers - 1);
    for (int i = 1; i < team_.workers; ++i) threads_.emplace_back([this, i, seen] { serve(i, seen); });
  } catch (...) {
    close();
    throw;
  }
}

// In the child of a fork. A worker of the parent may have been between a launch and the reset of its counters.
void ThreadPool::abandon_threads() {
  new std::vector<std::thread>(std::move(threads_));  // never freed: a thread that is not joined ends the process
  threads_.clear();
  reset(team_);
  reset(alone_);
}

void ThreadPool::close() {
  function_ = nullptr;
  launch_.fetch_add(1, std::memory_order_release);
  launch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool ThreadPool::run_erased(Function function, const void* context, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(turn_);
  if (threads_.empty() && team_.workers > 1) start_threads();  // after a fork
  function_ = function;
  context_ = context;
  team_.cancel = cancel;
  team_.stopped = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  launch_.fetch_add(1, std::memory_order_release);
  if (!threads_.empty()) launch_.notify_all();
  const auto start = std::chrono::steady_clock::now();
  time_waited = {};
  Worker worker(team_, 0);
  function(context, worker);
  worker.barrier();
  crowd_.ran(team_.workers, std::chrono::steady_clock::now() - start, time_waited);
  return !team_.stopped;
}

void ThreadPool::serve(int index, uint32_t seen) {
  for (;;) {
    seen = wait_for_launch(seen);
    if (function_ == nullptr) return;
    Worker worker(team_, index);
    function_(context_, worker);
    worker.barrier();
  }
}

uint32_t ThreadPool::wait_for_launch(uint32_t seen) const {
  const auto changed = [&] { return launch_.load(std::memory_order_acquire) != seen; };
  if (team_.spins > 0) {
    const auto end = std::chrono::steady_clock::now() + kSpinForLaunch;
    do {
      for (int i = 0; i < 32; ++i) {
        if (changed()) return launch_.load(std::memory_order_acquire);
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  while (!changed()) launch_.wait(seen, std::memory_order_acquire);
  return launch_.load(std::memory_order_acquire);
}

}  // namespace gabbro::cpu
