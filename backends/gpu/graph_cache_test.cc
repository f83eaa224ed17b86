// Captured lists of launches on streams of the simulator: when they are replayed, and what happens where they fail.
#include "backends/gpu/graph_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "backends/gpu/device.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kListCount = 100;

std::unique_ptr<Kernel> make_negate(GpuDevice& device) {
  abi::TensorView view = {.shape = {kListCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  return device.make_kernel({.op = "neg", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1});
}

// Nine launches of a kernel, x to y and back.
struct List {
  List(const Kernel& kernel, void* x, void* y) {
    for (size_t i = 0; i < launches.size(); ++i) {
      views[i][0] = views[i][1] = {.shape = {kListCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
      views[i][0].data = i % 2 == 0 ? x : y;
      views[i][1].data = i % 2 == 0 ? y : x;
      launches[i] = {
          .kernel = &kernel, .inputs = &views[i][0], .outputs = &views[i][1], .input_count = 1, .output_count = 1};
    }
  }
  std::array<std::array<abi::TensorView, 2>, 9> views;
  std::array<abi::Launch, 9> launches;
};

TEST(Graphs, AreDroppedWithAKernelThatTheyUseAndNoOther) {
  GpuDevice device(0);
  const auto first = make_negate(device), second = make_negate(device);
  void *x = device.allocate(nullptr, kListCount * 4), *y = device.allocate(nullptr, kListCount * 4);
  const List one(*first, x, y), two(*second, x, y);
  GpuStream& other = *device.create_stream();
  auto* const handle = reinterpret_cast<abi::Stream*>(&other);
  std::vector<float> values(kListCount, 2);
  device.copy_to_device(nullptr, x, values.data(), kListCount * 4);
  for (int run = 0; run < 3; ++run) {
    for (const List* list : {&one, &two}) ASSERT_TRUE(device.execute(nullptr, list->launches.data(), 9, nullptr));
  }
  device.synchronize_stream(nullptr);
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(device.execute(handle, one.launches.data(), 9, nullptr));
  device.synchronize_stream(handle);
  GpuStream& compute = device.stream(nullptr);
  EXPECT_EQ(compute.graph_count(), 2U);
  EXPECT_EQ(other.graph_count(), 1U);
  device.forget_graphs_of(first.get());
  EXPECT_EQ(compute.graph_count(), 1U);
  EXPECT_EQ(other.graph_count(), 0U);
  ASSERT_TRUE(device.execute(nullptr, two.launches.data(), 9, nullptr));  // replayed
  EXPECT_EQ(compute.graph_count(), 1U);
  device.copy_to_host(nullptr, values.data(), y, kListCount * 4);
  EXPECT_EQ(values, std::vector<float>(kListCount, values[0]));
  device.forget_graphs_of(second.get());
  EXPECT_EQ(compute.graph_count(), 0U);
  for (void* memory : {x, y}) device.free(nullptr, memory);
  device.destroy_stream(&other);
}

// Notes which of its inputs were settled at each launch.
class Witness : public Kernel {
 public:
  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    for (int i = 0; i < launch.input_count; ++i) settled.push_back(run.settled(launch, {i}));
  }
  mutable std::vector<bool> settled;
};

// An early read is of what no launch ahead in a graph writes: neither the whole of an input nor a part of it.
TEST(Graphs, TellWhichInputsAreSettled) {
  GpuDevice device(0);
  const auto negate = make_negate(device);
  auto* const memory = static_cast<float*>(device.allocate(nullptr, 4 * kListCount * 4));
  const std::vector<float> values(4 * kListCount, 1);
  device.copy_to_device(nullptr, memory, values.data(), values.size() * 4);
  List list(*negate, memory, memory + kListCount);
  const Witness witness;
  // The inputs of the last launch but one. Other launches write their first 2 * kListCount elements.
  const auto part = [&](int64_t first, int64_t count) {
    return abi::TensorView{.data = memory + first, .shape = {count}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  };
  std::array<abi::TensorView, 4> inputs = {part(0, 4), part(2 * kListCount - 1, 2), part(2 * kListCount, kListCount),
                                           part(3 * kListCount, kListCount)};
  std::array<abi::TensorView, 1> output = {part(3 * kListCount, kListCount)};
  list.launches[7] = {
      .kernel = &witness, .inputs = inputs.data(), .outputs = output.data(), .input_count = 4, .output_count = 1};
  ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_EQ(witness.settled, (std::vector<bool>{false, false, false, false}));  // launches before the list may run
  witness.settled.clear();
  ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_EQ(witness.settled, (std::vector<bool>{false, false, true, true}));
  // Behind a launch that writes the last of them.
  list.launches[8] = list.launches[7];
  witness.settled.clear();
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  const std::vector<bool> last(witness.settled.end() - 4, witness.settled.end());
  EXPECT_EQ(last, (std::vector<bool>{false, false, true, false}));
  device.forget_graphs_of(&witness);
  device.free(nullptr, memory);
}

// A device whose graphs have a fault, and lists x -> -x -> x ... -> y of nine launches. Every run is checked.
class GraphFaults : public testing::Test {
 protected:
  GraphFaults() { std::filesystem::remove(file_); }
  ~GraphFaults() override {
    close();
    for (const char* variable : {"GABBRO_SIM_FAIL", "GABBRO_GRAPHS"}) ::unsetenv(variable);
    std::filesystem::remove(file_);
  }

  void open(const char* fault) {
    close();
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    device_ = std::make_unique<GpuDevice>(0, abi::DeviceOptions{.tuning = {.file = file_.c_str()}});
    kernel_ = make_negate(*device_);
    for (void*& memory : memory_) memory = device_->allocate(nullptr, kListCount * 4);
  }
  void close() {
    if (device_ == nullptr) return;
    device_->forget_graphs_of(kernel_.get());
    for (void* memory : memory_) device_->free(nullptr, memory);
    device_.reset();
  }

  // Runs the list `number` once with another x each time. Whether y is right.
  bool run(size_t number = 0) {
    const List list(*kernel_, memory_[0], memory_[1 + number]);
    std::vector<float> values(kListCount, next_ += 1);
    device_->copy_to_device(nullptr, memory_[0], values.data(), kListCount * 4);
    EXPECT_TRUE(device_->execute(nullptr, list.launches.data(), 9, nullptr));
    device_->copy_to_host(nullptr, values.data(), memory_[1 + number], kListCount * 4);
    return values == std::vector<float>(kListCount, -next_);
  }
  bool run_all(int times, size_t number = 0) {
    bool right = true;
    for (int i = 0; i < times; ++i) right = run(number) && right;
    return right;
  }
  size_t graphs() { return device_->stream(nullptr).graph_count(); }
  std::string reason() { return device_->graph_policy().reason(); }
  std::string verdict() const {
    std::ifstream file(file_);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.substr(std::min(text.find("\tgraphs\t"), text.size()));
  }

  const std::string file_ = testing::TempDir() + "graph_verdicts.txt";
  std::unique_ptr<GpuDevice> device_;
  std::unique_ptr<Kernel> kernel_;
  std::array<void*, 4> memory_{};  // x, and the results of three lists
  float next_ = 0;
};

TEST_F(GraphFaults, NoneWithoutAFault) {
  open("");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 1U);
  EXPECT_EQ(verdict(), "");  // the simulator's graphs need no test
}

TEST_F(GraphFaults, GraphsAreSwitchedOff) {
  ::setenv("GABBRO_GRAPHS", "0", 1);
  open("");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 0U);
  EXPECT_EQ(reason(), "GABBRO_GRAPHS=0 asks for it");
}

// Replays that read memory as it was before the last copy, as ROCm/hip#3902.
TEST_F(GraphFaults, StaleReplaysAreFoundBeforeTheFirstGraph) {
  ::setenv("GABBRO_GRAPHS", "1", 1);
  open("graph:stale");
  EXPECT_FALSE(run_all(4)) << "the fault does no harm, and the test proves nothing";
  ::unsetenv("GABBRO_GRAPHS");

  open("graph:stale");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 0U);
  EXPECT_EQ(reason(), "replay 1 of a graph of 300 launches computes something else than single launches");
  EXPECT_EQ(verdict().substr(0, 17), "\tgraphs\tlaunched\t");

  open("graph:stale");  // the verdict is kept
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(reason(), "they failed the test on this device (" + file_ + ")");
}

TEST_F(GraphFaults, ATestThatPassesIsKept) {
  open("graph:tested");
  EXPECT_EQ(device_->graph_policy().evidence(), "");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 1U);
  EXPECT_EQ(device_->graph_policy().evidence(), "tested");
  EXPECT_EQ(verdict().substr(0, 17), "\tgraphs\treplayed\t");
  abi::TuningFacts facts;
  open("graph:tested");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 1U);
  EXPECT_EQ(device_->graph_policy().evidence(), "tested before (" + file_ + ")");
  device_->tuning().facts(facts);
  EXPECT_EQ(facts.known, 0) << "the verdict counts as a measurement";
}

// Some runtimes crash in a graph: the test is then not run for ever.
TEST_F(GraphFaults, ATestThatTheProcessDoesNotSurviveIsRunTwice) {
  open("graph:tested");
  ASSERT_TRUE(run_all(2));
  std::ifstream in(file_);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find("\tgraphs\t");
  for (const auto& [tests, expected] : {std::pair{1, 1U}, std::pair{2, 0U}}) {
    std::ofstream(file_) << text.substr(0, at) << "\tgraphs\tunfinished " << tests << "\tunfinished " << tests
                         << "=1\n";
    open("graph:tested");
    EXPECT_TRUE(run_all(4));
    EXPECT_EQ(graphs(), expected) << tests;
  }
  EXPECT_EQ(reason(), "the process ended during their test, 2 times (" + file_ + ")");
}

TEST_F(GraphFaults, AFailedCaptureIsLaunchedDirectlyForEver) {
  open("capture:1");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 0U);
  EXPECT_TRUE(run_all(4, 1));  // another list
  EXPECT_EQ(graphs(), 1U);
  EXPECT_EQ(reason(), "");
}

TEST_F(GraphFaults, GraphsThatFindNoMemoryAreLaunchedDirectlyAndGivenUp) {
  open("graph:oom");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 0U);
  EXPECT_EQ(reason(), "");
  EXPECT_TRUE(run_all(4, 1));
  EXPECT_EQ(reason(), "they failed twice, the last time: sim: injected lack of memory for a graph");
  EXPECT_TRUE(run_all(4, 2));
  EXPECT_EQ(graphs(), 0U);
}

TEST_F(GraphFaults, NoneIsMadeWithoutSpareMemory) {
  open("graph:spare");
  EXPECT_TRUE(run_all(4));
  EXPECT_EQ(graphs(), 0U);
  EXPECT_EQ(reason(), "") << "there may be memory later";
}

// Does something else while it is captured.
class CaptureTrap : public Kernel {
 public:
  CaptureTrap(const Kernel& kernel, std::function<void()> trap) : kernel_(kernel), trap_(std::move(trap)) {}
  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    if (run.ahead != nullptr) trap_();
    kernel_.enqueue(launch, run);
  }

 private:
  const Kernel& kernel_;
  const std::function<void()> trap_;
};

TEST_F(GraphFaults, AnExceptionEndsTheCapture) {
  open("");
  int calls = 0;
  const CaptureTrap refusing(*kernel_, [&] {
    ++calls;
    throw ApiError(abi::StatusCode::kFailed, "not in a capture");
  });
  const CaptureTrap throwing(*kernel_, [] { throw std::bad_alloc(); });
  List list(*kernel_, memory_[0], memory_[1]);
  list.launches[5].kernel = &refusing;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(device_->execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_EQ(calls, 1) << "the list was captured again";
  EXPECT_TRUE(run_all(4, 2));  // another list on the same stream
  EXPECT_EQ(graphs(), 1U);
  list.launches[5].kernel = &throwing;
  EXPECT_TRUE(device_->execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_THROW(device_->execute(nullptr, list.launches.data(), 9, nullptr), std::bad_alloc);
  EXPECT_TRUE(run_all(4, 1));
  EXPECT_EQ(graphs(), 1U);
  for (const Kernel* kernel : {&refusing, &throwing}) device_->forget_graphs_of(kernel);
}

TEST_F(GraphFaults, GraphsAreDroppedBeforeCachedMemoryIsReleased) {
  open("malloc:9");  // the device's own are three, the test's four
  EXPECT_TRUE(run_all(3));
  ASSERT_EQ(graphs(), 1U);
  device_->free(nullptr, device_->allocate(nullptr, 3000));  // cached from here on
  void* const memory = device_->allocate(nullptr, 5000);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(graphs(), 0U);
  EXPECT_EQ(device_->pool(abi::MemoryKind::kDevice).facts().retries, 0U);
  device_->free(nullptr, memory);
  EXPECT_TRUE(run_all(3));
}

TEST(GraphCaches, KeepTheGraphsThatWereUsedLast) {
  const std::unique_ptr<api::Context, decltype(&api::close)> context(api::open(0), api::close);
  const std::unique_ptr<api::Queue, decltype(&api::destroy_queue)> queue(api::create_queue(context.get()),
                                                                         api::destroy_queue);
  GraphPolicy policy({.most = 2, .spare = 0, .tested = false, .off = {}}, {});
  GraphCache cache(context.get(), queue.get(), policy, [](const abi::Launch&, const WrittenMemory*) {});
  const Witness kernel;
  std::array<std::byte, 5> memory;
  const auto replay = [&](size_t number) {
    const List list(kernel, &memory[number], &memory[number]);
    return cache.replay(list.launches.data(), 9);
  };
  for (size_t number = 0; number < memory.size(); ++number) {
    EXPECT_FALSE(replay(number));
    EXPECT_TRUE(replay(number));
    EXPECT_EQ(cache.graph_count(), std::min<size_t>(number + 1, 2));
  }
  EXPECT_TRUE(replay(3));
  EXPECT_TRUE(replay(4));
  EXPECT_FALSE(replay(0));  // its graph was the oldest
}

}  // namespace
}  // namespace gabbro::gpu
