#include "apps/cli/serve_measure.h"

#include <sys/resource.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace gabbro::cli {
namespace {

constexpr size_t kMostOpenRequests = 2048;  // threads of an open loop; a server that is so far behind is measured

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The threads of one measurement and what they found.
class Loop {
 public:
  Loop(const ServerAddress& server, const Load& load, uint64_t number, const MeasureOptions& options,
       const std::atomic<bool>& stop)
      : server_(server), load_(load), number_(number), options_(options), stop_(stop) {}
  ~Loop() {
    for (std::thread& thread : threads_) thread.join();
  }

  // Sends request `index`; an interrupted one is dropped.
  void send(ServeClient& client, uint64_t index) {
    ChatRequest request = options_.request;
    const LoadRequest asked = load_.request(number_, index);
    request.prompt = asked.prompt;
    request.answer_tokens = asked.answer_tokens;
    request.seed = options_.seed + index + 1;
    try {
      ChatTimes times = client.chat(request);
      const std::lock_guard lock(mutex_);
      found_.push_back(std::move(times));
    } catch (const Error&) {  // interrupted: the caller looks at the flag
    }
  }

  void spawn(std::function<void(ServeClient&)> work) {
    ++running_;
    threads_.emplace_back([this, work = std::move(work)] {
      ServeClient client(server_, stop_);
      work(client);
      --running_;
    });
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  size_t running() const { return running_; }
  std::vector<ChatTimes> take() { return std::exchange(found_, {}); }

 private:
  const ServerAddress& server_;
  const Load& load_;
  const uint64_t number_;
  const MeasureOptions& options_;
  const std::atomic<bool>& stop_;
  std::mutex mutex_;
  std::vector<ChatTimes> found_;
  std::vector<std::thread> threads_;
  std::atomic<size_t> running_ = 0;
};

void run_closed(Loop& loop, int streams, const MeasureOptions& options, BenchClock::time_point end,
                const std::atomic<bool>& stop) {
  std::atomic<uint64_t> next = 0;
  for (int i = 0; i < streams; ++i) {
    loop.spawn([&](ServeClient& client) {
      while (!stop && BenchClock::now() < end) {
        const uint64_t index = next++;
        if (options.requests > 0 && index >= static_cast<uint64_t>(options.requests)) return;
        loop.send(client, index);
      }
    });
  }
  loop.join();
}

void run_open(Loop& loop, double rate, const MeasureOptions& options, BenchClock::time_point start,
              const std::atomic<bool>& stop) {
  std::vector<double> times = poisson_arrivals(rate, options.seconds, options.seed);
  if (options.requests > 0 && std::ssize(times) > options.requests) times.resize(static_cast<size_t>(options.requests));
  for (uint64_t index = 0; index < times.size(); ++index) {
    const auto due =
        start + std::chrono::duration_cast<BenchClock::duration>(std::chrono::duration<double>(times[index]));
    while (!stop && BenchClock::now() < due)
      std::this_thread::sleep_until(std::min(due, BenchClock::now() + std::chrono::milliseconds(50)));
    if (stop) break;
    if (loop.running() >= kMostOpenRequests)
      throw failed("{} requests are open at once: the server is too slow for {} requests a second", kMostOpenRequests,
                   rate);
    loop.spawn([&loop, index](ServeClient& client) { loop.send(client, index); });
  }
  loop.join();
}

void require_answers(const std::vector<ChatTimes>& requests) {
  if (!requests.empty() && std::ranges::none_of(requests, &ChatTimes::is_whole))
    throw failed("none of {} requests was answered: {}", requests.size(), requests.front().error);
}

void throw_if_interrupted(const std::atomic<bool>& stop) {
  if (stop) throw Error(ErrorCode::kInterrupted, "interrupted");
}

}  // namespace

Measured measure_serving(const ServerAddress& server, const Load& load, const LoopPoint& point, uint64_t number,
                         const MeasureOptions& options, const std::atomic<bool>& stop) {
  constexpr uint64_t kWarmup = uint64_t{1} << 40;  // indexes that no counted request has
  Loop loop(server, load, number, options, stop);
  for (int i = 0; i < options.warmup; ++i) {
    loop.spawn([&loop, i](ServeClient& client) { loop.send(client, kWarmup + static_cast<uint64_t>(i)); });
  }
  loop.join();
  throw_if_interrupted(stop);
  require_answers(loop.take());
  const double cpu_before = cpu_seconds();
  const auto start = BenchClock::now();
  const auto length = std::chrono::duration_cast<BenchClock::duration>(std::chrono::duration<double>(options.seconds));
  point.streams > 0 ? run_closed(loop, point.streams, options, start + length, stop)
                    : run_open(loop, point.rate, options, start, stop);
  throw_if_interrupted(stop);
  const double elapsed = std::chrono::duration<double>(BenchClock::now() - start).count();
  Measured measured{.point = point,
                    .seconds = std::min(elapsed, options.seconds),
                    .cpu_seconds = (cpu_seconds() - cpu_before) * std::min(1.0, options.seconds / elapsed),
                    .start = start,
                    .requests = loop.take()};
  if (measured.requests.empty()) throw failed("no request was sent within {} seconds", options.seconds);
  require_answers(measured.requests);
  return measured;
}

}  // namespace gabbro::cli
