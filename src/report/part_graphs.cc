// Replayed lists of launches against direct ones, and the exchange between blocks of split kernels, many times.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/error.h"
#include "src/report/examined_device.h"

namespace gabbro::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNodes = 300, kReplays = 200;
constexpr int64_t kElements = 1000;

// kNodes additions of a word, in sequence: y = kNodes · word.
class Chain {
 public:
  explicit Chain(Device& device)
      : device_(device),
        word_(zero_buffer(device, {kElements}, DType::f32)),
        zero_(zero_buffer(device, {kElements}, DType::f32)) {
    for (Buffer& buffer : sums_) buffer = make_buffer(device, {kElements}, DType::f32);
    for (int i = 0; i < kNodes; ++i) {
      const Buffer& from = i == 0 ? zero_ : sums_[(i + 1) % 2];
      auto call = make_call(device, "add", {from, word_}, sums_[i % 2]);
      if (!call) throw failed("the device has no kernel for add");
      calls_.push_back(std::move(*call));
    }
    for (KernelCall& call : calls_) launches_.push_back(call.launch());
  }

  // The first wrong value's index, or -1. `direct`: in lists that are too short for a graph.
  int64_t run(float word, bool direct) {
    const std::vector<float> words(kElements, word);
    device_.copy_to_device(word_.view.data, words.data(), word_.bytes);
    const size_t step = direct ? 4 : launches_.size();
    for (size_t at = 0; at < launches_.size(); at += step)
      execute(device_, std::span(launches_).subspan(at, std::min(step, launches_.size() - at)), nullptr);
    const std::vector<float> found = downloaded(device_, sums_[(kNodes - 1) % 2]);
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] != word * kNodes) return static_cast<int64_t>(i);
    }
    return -1;
  }

 private:
  Device& device_;
  Buffer word_, zero_, sums_[2];
  std::vector<KernelCall> calls_;
  std::vector<abi::Launch> launches_;
};

struct ChainResult {
  int replays = 0, wrong = 0, first_wrong = -1;
  double seconds = 0;
};

ChainResult run_chain(const PartOptions& options, bool direct, int replays, Clock::time_point deadline) {
  const DevicePointer device = open_examined_device(options);
  Chain chain(*device);
  ChainResult result;
  result.seconds = seconds_of([&] {
    for (; result.replays < replays && Clock::now() < deadline; ++result.replays) {
      if (chain.run(static_cast<float>(result.replays % 97 + 1), direct) < 0) continue;
      ++result.wrong;
      if (result.first_wrong < 0) result.first_wrong = result.replays;
    }
  });
  return result;
}

nlohmann::ordered_json line_of(const char* how, int thread, const ChainResult& result) {
  return {{"graph_test", how},         {"thread", thread},      {"nodes", kNodes},
          {"replays", result.replays}, {"wrong", result.wrong}, {"first_wrong", result.first_wrong},
          {"seconds", result.seconds}};
}

// y = W·x with a long sum, whose splits are added by the block that comes last.
void run_litmus(Device& device, int64_t tokens, PartOutput& output, Clock::time_point deadline) {
  constexpr int64_t kRows = 64, kDepth = 16384;
  constexpr int kLaunches = 32;
  constexpr int64_t kWanted = 1000000;
  const Buffer w = random_weight(device, kRows, kDepth, DType::f16, 3);
  const Buffer x = random_buffer(device, {tokens, kDepth}, DType::f32, 4);
  std::vector<Buffer> results;
  std::vector<KernelCall> calls;
  for (int i = 0; i < kLaunches; ++i) {
    results.push_back(zero_buffer(device, {tokens, kRows}, DType::f32));
    auto call = make_call(device, "linear", {x, w}, results.back());
    if (!call) throw failed("the device has no kernel for linear");
    calls.push_back(std::move(*call));
  }
  std::vector<abi::Launch> launches;
  for (KernelCall& call : calls) launches.push_back(call.launch());
  std::vector<float> first;
  int64_t done = 0, different = 0;
  double largest = 0;
  while (done < kWanted && Clock::now() < deadline) {
    // Both kinds: a list that becomes a graph, and lists that do not.
    execute(device, launches, nullptr);
    for (const Buffer& result : results) {
      const std::vector<float> found = downloaded(device, result);
      if (first.empty()) first = found;
      ++done;
      if (found == first) continue;
      ++different;
      for (size_t i = 0; i < found.size(); ++i) {
        const double difference = std::abs(found[i] - first[i]);
        largest = std::isfinite(difference) ? std::max(largest, difference) : 1e30;
      }
    }
  }
  output.line({{"litmus", fmt::format("linear f16, {} tokens, depth {}", tokens, kDepth)},
               {"implementation", calls.front().implementation()},
               {"launches", done},
               {"different", different},
               {"largest_difference", largest}});
}

}  // namespace

void check_graphs(const PartOptions& options, PartOutput& output) {
  const Budget budget(options);
  output.line(line_of("direct", 0, run_chain(options, true, 3, budget.at(0.2))));
  output.line(line_of("replayed", 0, run_chain(options, false, kReplays, budget.at(0.4))));
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](int thread) {
    try {
      const ChainResult result = run_chain(options, false, kReplays, budget.at(0.7));
      const std::lock_guard lock(mutex);
      output.line(line_of("replayed by two threads", thread, result));
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  { const std::jthread first(work, 1), second(work, 2); }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void check_litmus(const PartOptions& options, PartOutput& output) {
  const Budget budget(options);
  const DevicePointer device = open_examined_device(options);
  run_litmus(*device, 1, output, budget.at(0.4));
  run_litmus(*device, 4, output, budget.at(0.8));
}

}  // namespace gabbro::report
