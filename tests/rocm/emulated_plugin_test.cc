// The ROCm plugin on the emulated HIP runtime (tests/emulated_hip): graphs, streams, and processes that are forked.
// Each test has its own process, since HIP reads its variables once.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gabbro/backend_abi.h"

namespace gabbro {
namespace {

using abi::CheckStatus;
using abi::StatusCode;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

constexpr int64_t kCount = 100;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first device of the plugin, on which lists x -> -x -> x ... -> y of nine launches run.
class Device {
 public:
  Device() {
    void* const library = ::dlopen(GABBRO_TEST_LIBRARIES "/libgabbro_rocm.so", RTLD_NOW | RTLD_LOCAL);
    const auto entry = reinterpret_cast<const abi::Backend* (*)()>(::dlsym(library, "gabbro_backend"));
    backend_ = entry();
    expect(backend_->open(0, nullptr, &device_));
    abi::TensorView view = vector(nullptr);
    const abi::KernelRequest request = {
        .op = "neg", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1};
    expect(backend_->find_kernel(device_, &request, &kernel_));
    for (void*& memory : memory_) expect(backend_->allocate(device_, nullptr, kCount * sizeof(float), &memory));
  }
  ~Device() {
    for (void* memory : memory_) backend_->free(device_, nullptr, memory);
    backend_->release_kernel(device_, kernel_.handle);
    backend_->close(device_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Runs the list with another x each time: how often y was right.
  int run(int times, size_t number = 0) {
    int right = 0;
    for (int i = 0; i < times; ++i) right += run_once(number) ? 1 : 0;
    return right;
  }
  abi::Status copy() {
    float value = 0;
    return backend_->copy_to_device(device_, nullptr, memory_[0], &value, sizeof value);
  }
  abi::CheckResult check(const char* id) {
    abi::CheckResult result;
    expect(backend_->run_check(0, id, &result));
    return result;
  }
  const abi::Backend& backend() { return *backend_; }

 private:
  static abi::TensorView vector(void* data) {
    return {.data = data, .shape = {kCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  }
  static void expect(const abi::Status& status) { EXPECT_EQ(status.code, StatusCode::kOk) << status.message; }

  bool run_once(size_t number) {
    std::array<std::array<abi::TensorView, 2>, 9> views;
    std::array<abi::Launch, 9> launches{};
    for (size_t i = 0; i < launches.size(); ++i) {
      views[i] = {vector(memory_[i % 2 == 0 ? 0 : 1 + number]), vector(memory_[i % 2 == 0 ? 1 + number : 0])};
      launches[i] = {.kernel = kernel_.handle,
                     .inputs = &views[i][0],
                     .outputs = &views[i][1],
                     .input_count = 1,
                     .output_count = 1};
    }
    std::vector<float> values(kCount, next_ += 1);
    expect(backend_->copy_to_device(device_, nullptr, memory_[0], values.data(), kCount * sizeof(float)));
    expect(backend_->execute(device_, nullptr, launches.data(), 9, nullptr));
    expect(backend_->copy_to_host(device_, nullptr, values.data(), memory_[1 + number], kCount * sizeof(float)));
    return values == std::vector<float>(kCount, -next_);
  }

  const abi::Backend* backend_ = nullptr;
  abi::Device* device_ = nullptr;
  abi::BoundKernel kernel_{};
  std::array<void*, 4> memory_{};
  float next_ = 0;
};

class EmulatedRocm : public testing::Test {
 protected:
  EmulatedRocm() { std::filesystem::remove(statistics_); }
  ~EmulatedRocm() override { std::filesystem::remove(statistics_); }

  // Runs the body in a process on one emulated card.
  void on(const char* card, const char* release, Variables variables, const std::function<void()>& body) {
    variables.insert({{"GABBRO_HIP_PATH", GABBRO_TEST_LIBRARIES "/emulated_hip"},
                      {"GABBRO_TUNING_FILE", ""},
                      {"EMULATED_GPUS", card},
                      {"EMULATED_GPU_STRICT", release},
                      {"EMULATED_GPU_STATISTICS", statistics_}});
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      body();
      std::exit(HasFailure() ? 1 : 0);  // the runtime writes its statistics at the end
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << card << ", HIP " << release;
  }

  // A count of the process that ended last.
  int64_t statistic(const std::string& name) const {
    const std::string text = text_of(statistics_), key = "\"" + name + "\":";
    const size_t at = text.rfind(key);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + key.size(), nullptr, 10);
  }

  const std::string statistics_ = testing::TempDir() + fmt::format("emulated_{}.json", ::getpid());
};

TEST_F(EmulatedRocm, ListsAreReplayedAsGraphsOnceTheseWereTested) {
  for (const auto& [card, release] :
       {std::pair{"gfx90a", "6.4"}, std::pair{"gfx942", "7.14"}, std::pair{"gfx1100", "10.0"}}) {
    on(card, release, {}, [] {
      Device device;
      EXPECT_EQ(device.run(4), 4);
      EXPECT_STREQ(device.check("graphs").summary, "graphs of launches compute what single launches do");
    });
    EXPECT_GT(statistic("graph_launches"), 2) << card;
  }
}

TEST_F(EmulatedRocm, ReleasesThatReplayThemWronglyHaveNone) {
  on("gfx942", "7.2", {}, [] {
    Device device;
    EXPECT_EQ(device.run(4), 4);
    EXPECT_THAT(device.check("graphs").summary, HasSubstr("HIP 7.2 replays them wrongly on gfx942"));
  });
  EXPECT_EQ(statistic("graphs_made"), 0);
}

TEST_F(EmulatedRocm, GraphsAreSwitchedOff) {
  on("gfx1100", "7.14", {{"GABBRO_GRAPHS", "0"}}, [] { EXPECT_EQ(Device().run(4), 4); });
  EXPECT_EQ(statistic("graphs_made"), 0);
}

// ROCm/hip#3902 and ROCm/rocm-systems#6888.
TEST_F(EmulatedRocm, TheTestFindsWrongReplays) {
  for (const char* fault : {"graph:stale", "graph:truncate"}) {
    on("gfx1201", "7.2", {{"EMULATED_GPU_FAIL", fault}}, [] {
      Device device;
      EXPECT_EQ(device.run(4), 4);
      const abi::CheckResult result = device.check("graphs");
      EXPECT_EQ(result.status, CheckStatus::kWarning);
      EXPECT_THAT(result.summary, HasSubstr("of a graph of 300 launches computes something else than single launches"));
    });
    EXPECT_EQ(statistic("graph_launches") % 4, 0) << fault << ": of the test alone, four between two waits";
  }
  on("gfx1201", "7.2", {{"EMULATED_GPU_FAIL", "graph:stale"}, {"GABBRO_GRAPHS", "1"}},
     [] { EXPECT_LT(Device().run(4), 4) << "the fault does no harm, and the test above proves nothing"; });
}

TEST_F(EmulatedRocm, CapturesAndGraphsThatFailAreLaunchedDirectly) {
  for (const char* fault : {"capture:3", "graph:oom"}) {
    for (const char* release : {"6.4", "7.2"}) {
      on("gfx1100", release, {{"EMULATED_GPU_FAIL", fault}, {"GABBRO_GRAPHS", "1"}}, [] {
        Device device;
        EXPECT_EQ(device.run(4), 4);
        EXPECT_EQ(device.run(4, 1), 4);
        EXPECT_EQ(device.run(4, 2), 4);
      });
    }
  }
}

// Some cards stay busy for as long as a process has a second one.
TEST_F(EmulatedRocm, ADeviceHasOneStream) {
  on("gfx1100", "7.14", {}, [] { EXPECT_EQ(Device().run(1), 1); });
  EXPECT_EQ(statistic("streams_made"), 1);
}

TEST_F(EmulatedRocm, AForkedProcessIsToldToStartAnother) {
  on("gfx1100", "7.14", {}, [] {
    Device device;
    const pid_t child = ::fork();
    if (child == 0) {
      const abi::Status copied = device.copy();
      EXPECT_EQ(copied.code, StatusCode::kFailed);
      EXPECT_THAT(copied.message,
                  HasSubstr(fmt::format("was forked from process {}, which had opened ROCm", ::getppid())));
      EXPECT_THAT(copied.message, HasSubstr("multiprocessing.set_start_method('spawn')"));
      EXPECT_EQ(device.backend().device_count(), 1);
      abi::Device* another = nullptr;
      EXPECT_THAT(device.backend().open(0, nullptr, &another).message, HasSubstr("was forked from process"));
      device.~Device();  // also releases what it can without a call of HIP
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(device.run(2), 2) << "the parent is none the worse";
  });
}

}  // namespace
}  // namespace gabbro
