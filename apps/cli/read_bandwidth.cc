#include "apps/cli/read_bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace gabbro::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Eight sums, so that the additions do not wait for each other; the result keeps the loop alive.
uint64_t sum(const uint64_t* words, size_t count) {
  uint64_t lanes[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
  }
  uint64_t total = 0;
  for (const uint64_t lane : lanes) total += lane;
  return total;
}

// Larger than any last-level cache that one socket has, but no more than an eighth of the memory.
size_t probe_bytes() {
  constexpr size_t kLeast = size_t{256} << 20;
  const size_t cache = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(std::max(kLeast, 2 * cache), memory / 8);
}

}  // namespace

double measure_read_bandwidth(int threads) {
  const auto workers = static_cast<size_t>(std::max(1, threads));
  const size_t words = probe_bytes() / sizeof(uint64_t) / workers;
  if (words < (size_t{1} << 20)) return 0;
  constexpr size_t kPasses = 6;
  constexpr double kMostSeconds = 2;  // no pass begins after it: a busy machine is not kept waiting
  std::atomic<size_t> ready{0};
  std::atomic<uint64_t> sink{0};
  std::atomic<bool> out_of_memory{false}, enough{false};
  const auto begun = Clock::now();
  std::vector<double> seconds(workers * kPasses, 0.0);
  std::vector<std::thread> pool;
  for (size_t w = 0; w < workers; ++w) {
    pool.emplace_back([&, w] {
      std::unique_ptr<uint64_t[]> buffer(new (std::nothrow) uint64_t[words]);
      if (buffer) {
        std::fill_n(buffer.get(), words, w);  // touched by its reader, so that it is in the nearest memory
      } else {
        out_of_memory = true;
      }
      for (size_t pass = 0; pass < kPasses; ++pass) {
        ++ready;
        while (ready < workers * (pass + 1)) std::this_thread::yield();
        if (out_of_memory || enough) return;
        const auto start = Clock::now();
        sink += sum(buffer.get(), words);
        seconds[w * kPasses + pass] = std::chrono::duration<double>(Clock::now() - start).count();
        // Before the first worker counts as ready, so that all see the same.
        if (w == 0 && std::chrono::duration<double>(Clock::now() - begun).count() > kMostSeconds) enough = true;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  if (out_of_memory) return 0;
  double best = 0;
  for (size_t pass = 0; pass < kPasses; ++pass) {  // a pass lasts as long as its slowest thread
    double slowest = 0;
    for (size_t w = 0; w < workers; ++w) slowest = std::max(slowest, seconds[w * kPasses + pass]);
    if (slowest == 0) break;  // it was not begun
    best = std::max(best, static_cast<double>(words * sizeof(uint64_t) * workers) / slowest);
  }
  return best;
}

}  // namespace gabbro::cli
