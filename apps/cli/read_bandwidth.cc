#include "apps/cli/read_bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "src/base/cache_flush.h"

namespace gabbro::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of all threads. Caches of servers have up to 1.1 GiB: each pass reads lines that were flushed before it. With
// fewer bytes the time that threads take to begin together would count.
constexpr size_t kProbeBytes = size_t{24} << 20;
constexpr size_t kLeastBytes = size_t{64} << 10;  // for a thread

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

struct Span {
  Clock::time_point begin{}, end{};  // equal: it was not read
};

}  // namespace

double measure_read_bandwidth(int threads) {
  if (!can_flush_caches()) return 0;
  const auto workers = static_cast<size_t>(std::max(1, threads));
  const size_t words = std::max(kProbeBytes / workers, kLeastBytes) / sizeof(uint64_t) / 8 * 8;
  constexpr size_t kPasses = 24;
  constexpr double kMostSeconds = 0.5;  // no pass begins after it: a busy machine is not kept waiting
  const std::unique_ptr<uint64_t[]> memory(new (std::nothrow) uint64_t[words * workers]);
  if (memory == nullptr) return 0;
  std::atomic<size_t> ready{0};
  std::atomic<uint64_t> sink{0};
  std::atomic<size_t> passes{kPasses};  // that all workers make
  const auto begun = Clock::now();
  std::vector<Span> spans(workers * kPasses);
  std::vector<std::thread> pool;
  for (size_t w = 0; w < workers; ++w) {
    pool.emplace_back([&, w] {
      uint64_t* const own = memory.get() + w * words;
      std::fill_n(own, words, w);  // touched by its reader, so that it is in the nearest memory
      for (size_t pass = 0; pass < kPasses; ++pass) {
        flush_from_caches(own, words * sizeof(uint64_t));
        ++ready;
        while (ready < workers * (pass + 1)) std::this_thread::yield();
        if (pass >= passes) return;
        Span& span = spans[w * kPasses + pass];
        span.begin = Clock::now();
        sink += sum(own, words);
        span.end = Clock::now();
        // Before the first worker counts as ready for the next pass: all end there, also those that are late in this
        // one.
        if (w == 0 && std::chrono::duration<double>(span.end - begun).count() > kMostSeconds) passes = pass + 1;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  std::vector<double> rates;
  for (size_t pass = 0; pass < kPasses; ++pass) {  // from the first thread's begin to the last one's end
    Span all = spans[pass];
    for (size_t w = 1; w < workers; ++w) {
      all.begin = std::min(all.begin, spans[w * kPasses + pass].begin);
      all.end = std::max(all.end, spans[w * kPasses + pass].end);
    }
    const double seconds = std::chrono::duration<double>(all.end - all.begin).count();
    if (seconds > 0) rates.push_back(static_cast<double>(words * sizeof(uint64_t) * workers) / seconds);
  }
  if (rates.empty()) return 0;
  // The fastest passes are luck; slow ones shared the machine with other programs.
  const auto quarter = rates.begin() + std::ssize(rates) / 4;
  std::ranges::nth_element(rates, quarter, std::greater());
  return *quarter;
}

}  // namespace gabbro::cli
