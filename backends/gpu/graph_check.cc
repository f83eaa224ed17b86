#include "backends/gpu/graph_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "backends/gpu/graph_cache.h"
#include "kernels/elementwise/graph_step.h"

namespace gabbro::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLaunches = 300;  // HIP 7.2 on gfx1201 reads old values from about the 200th on (ROCm/hip#3887)
constexpr int kReplays = 200;
constexpr int kDirect = 2;    // rounds of single launches
constexpr int kEnqueued = 4;  // replays between two waits
constexpr auto kLimit = std::chrono::milliseconds(700);
constexpr size_t kBytes = kGraphStepElements * sizeof(uint32_t);

double seconds_since(Clock::time_point start) {
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

// A queue whose launches are one chain: `state` after each round depends on all launches before, and on the word of
// each round.
class Chain {
 public:
  Chain(api::Context* context, const api::Function* step, uint32_t seed)
      : step_(step),
        seed_(seed),
        queue_(api::create_queue(context), api::destroy_queue),
        device_(allocate(context, api::allocate, api::release, 2 * kBytes + sizeof(uint32_t))),
        host_(allocate(context, api::allocate_pinned, api::release_pinned, kEnqueued * (kBytes + sizeof(uint32_t)))),
        expected_(kGraphStepElements) {
    for (uint32_t i = 0; i < kGraphStepElements; ++i) expected_[i] = seed + i;
    api::copy_to_device(queue_.get(), state(), expected_.data(), kBytes);
    api::synchronize(queue_.get());
  }
  ~Chain() {
    try {
      api::synchronize(queue_.get());
    } catch (const ApiError&) {
      // The device failed before.
    }
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // `both`: the threads that capture at the same time.
  void capture(std::barrier<>& both) {
    Capture capture(queue_.get());
    both.arrive_and_wait();
    launch();
    graph_ = capture.end();
  }

  // Runs `rounds` (at most kEnqueued) and compares: the first round whose result is wrong, counted from the first call.
  std::optional<int> run(int rounds, bool replayed) {
    for (int i = 0; i < rounds; ++i) {
      words()[i] = word_of(round_ + i);
      api::copy_to_device(queue_.get(), device_word(), words() + i, sizeof(uint32_t));
      if (replayed) {
        api::replay(queue_.get(), graph_.get());
      } else {
        launch();
      }
      api::copy_to_host(queue_.get(), result(i), state(), kBytes);
    }
    api::synchronize(queue_.get());
    for (int i = 0; i < rounds; ++i, ++round_) {
      for (uint32_t& value : expected_) {
        for (int k = 0; k < kLaunches; ++k) value = value * kGraphStepFactor + word_of(round_);
      }
      if (!std::equal(expected_.begin(), expected_.end(), result(i))) return round_;
    }
    return std::nullopt;
  }

 private:
  using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  static Memory allocate(api::Context* context, void* (*allocate)(api::Context*, size_t),
                         void (*release)(api::Context*, void*), size_t bytes) {
    void* const memory = allocate(context, bytes);
    if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for the test of graphs");
    return {static_cast<std::byte*>(memory), [=](std::byte* pointer) { release(context, pointer); }};
  }

  uint32_t word_of(int round) const { return (seed_ + static_cast<uint32_t>(round)) * 2654435761U; }
  uint32_t* state() { return reinterpret_cast<uint32_t*>(device_.get()); }
  uint32_t* device_word() { return state() + 2 * kGraphStepElements; }
  uint32_t* words() { return reinterpret_cast<uint32_t*>(host_.get() + kEnqueued * kBytes); }
  uint32_t* result(int i) { return reinterpret_cast<uint32_t*>(host_.get()) + i * kGraphStepElements; }

  void launch() {
    static_assert(kLaunches % 2 == 0, "the last launch writes the state");
    const std::array buffers = {state(), state() + kGraphStepElements};
    for (size_t i = 0; i < kLaunches; ++i) {
      const GraphStepArgs args{.word = device_word(), .from = buffers[i % 2], .to = buffers[1 - i % 2]};
      if (auto* const check = api::access_check()) {
        check->enqueued(queue_.get(), "graph_step",
                        {{args.word, sizeof(uint32_t), false}, {args.from, kBytes, false}, {args.to, kBytes, true}});
      }
      api::launch(queue_.get(), step_, {}, &args, sizeof args, 1);
    }
  }

  const api::Function* const step_;
  const uint32_t seed_;
  std::unique_ptr<api::Queue, decltype(&api::destroy_queue)> queue_;
  Memory device_;  // two states, and the word
  Memory host_;    // pinned: results, and words
  OwnedGraph graph_;
  std::vector<uint32_t> expected_;
  int round_ = 0;
};

// The work of one thread.
GraphCheck check_chain(api::Context* context, const api::Function* step, uint32_t seed, Clock::time_point end,
                       std::barrier<>& both) {
  GraphCheck check;
  Chain chain(context, step, seed);
  auto start = Clock::now();
  if (chain.run(kDirect, false))
    throw ApiError(abi::StatusCode::kFailed, "dependent launches compute something else than the host");
  check.launched = seconds_since(start) / (kDirect * kLaunches);
  try {
    chain.capture(both);
    start = Clock::now();
    int done = 0;
    while (done < kReplays && (done == 0 || Clock::now() < end)) {
      const int rounds = std::min(kEnqueued, kReplays - done);
      if (const auto wrong = chain.run(rounds, true)) {
        check.problem = fmt::format("replay {} of a graph of {} launches computes something else than single launches",
                                    *wrong - kDirect + 1, kLaunches);
        return check;
      }
      done += rounds;
    }
    check.replayed = seconds_since(start) / (done * kLaunches);
  } catch (const ApiError& error) {
    if (error.code != abi::StatusCode::kFailed) throw;  // says nothing of graphs
    check.problem = error.what();
  }
  return check;
}

}  // namespace

GraphCheck check_graphs(api::Context* context, const api::Function* step) {
  const auto end = Clock::now() + kLimit;
  std::array<GraphCheck, 2> checks;
  std::array<std::exception_ptr, 2> failures;
  std::barrier<> both(2);
  {
    std::array<std::jthread, 2> threads;
    for (size_t i = 0; i < threads.size(); ++i) {
      threads[i] = std::jthread([&, i] {
        try {
          checks[i] = check_chain(context, step, static_cast<uint32_t>(1000 * i), end, both);
        } catch (...) {
          failures[i] = std::current_exception();
        }
        both.arrive_and_drop();  // the other thread may wait for a capture that did not begin
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  return checks[0].problem.empty() ? checks[1] : checks[0];
}

}  // namespace gabbro::gpu
