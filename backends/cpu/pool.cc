#include "backends/cpu/pool.h"

#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gabbro::cpu {
namespace {

// A host that samples a token between two launches takes 10 to 100 µs; a wake-up out of a futex costs about 50 µs.
constexpr auto kSpinForLaunch = std::chrono::microseconds(200);

// Pauses (about 20 ns each on Zen 4) in a barrier before the core is given away: the pieces of a launch differ by less
// than this unless somebody else runs on the core.
constexpr int32_t kSpinInBarrier = 4000;

// Turns given away in a barrier before the worker sleeps: what it waits for is then a long piece, or a crowded machine.
constexpr int kYieldsInBarrier = 64;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

void Worker::barrier() {
  const int used_loops = std::exchange(loop_, 0);
  const bool streamed = std::exchange(streamed_, false);
  const uint32_t generation = team_.generation.load(std::memory_order_relaxed);
  if (team_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == team_.workers) {
    for (int i = 0; i < used_loops; ++i) team_.loops[i].next.store(0, std::memory_order_relaxed);
    for (int i = 0; streamed && i < team_.workers; ++i) team_.taken[i].items.store(0, std::memory_order_relaxed);
    team_.stopped = cancelled();
    team_.arrived.store(0, std::memory_order_relaxed);
    team_.generation.store(generation + 1, std::memory_order_release);
    if (team_.workers > 1) team_.generation.notify_all();
    return;
  }
  for (int i = 0; i < team_.spins; ++i) {
    if (team_.generation.load(std::memory_order_acquire) != generation) return;
    pause();
  }
  for (int i = 0; i < kYieldsInBarrier; ++i) {
    if (team_.generation.load(std::memory_order_acquire) != generation) return;
    std::this_thread::yield();
  }
  while (team_.generation.load(std::memory_order_acquire) == generation) {
    team_.generation.wait(generation, std::memory_order_acquire);
  }
}

ThreadPool::ThreadPool(int workers, int cores) {
  team_.workers = std::max(workers, 1);
  team_.taken = std::make_unique<TeamState::Taken[]>(static_cast<size_t>(team_.workers));
  team_.spins = team_.workers <= cores ? kSpinInBarrier : 0;
  try {
    threads_.reserve(team_.workers - 1);
    for (int i = 1; i < team_.workers; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (...) {
    close();
    throw;
  }
}

ThreadPool::~ThreadPool() { close(); }

void ThreadPool::close() {
  function_ = nullptr;
  launch_.fetch_add(1, std::memory_order_release);
  launch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::run_erased(Function function, const void* context, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(turn_);
  function_ = function;
  context_ = context;
  team_.cancel = cancel;
  team_.stopped = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  launch_.fetch_add(1, std::memory_order_release);
  if (!threads_.empty()) launch_.notify_all();
  Worker worker(team_, 0);
  function(context, worker);
  worker.barrier();
  return !team_.stopped;
}

void ThreadPool::serve(int index) {
  uint32_t seen = 0;
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
