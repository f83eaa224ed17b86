// Waits for a device that hangs are reported and can be canceled, without keeping others from the stream; launches have
// names; the errors of both vendors' runtimes after which a device is lost.
#include "backends/gpu/wait.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "backends/gpu/device.h"
#include "backends/gpu/launch_names.h"
#include "backends/gpu/lost_device.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;
using Clock = std::chrono::steady_clock;

std::mutex g_mutex;
std::vector<std::string> g_lines;

void take_line(const char* line) {
  const std::lock_guard lock(g_mutex);
  g_lines.emplace_back(line);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A device that hangs for a while after its first launch.
class Waits : public testing::Test {
 protected:
  Waits() {
    ::setenv("GABBRO_SIM_FAIL", "hang:1", 1);
    ::setenv("GABBRO_SIM_HANG", "0.8", 1);
    ::setenv("GABBRO_SIM_PATIENCE", "0.2", 1);
    g_lines.clear();
    backend().set_reporter(take_line);
    EXPECT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk);
    EXPECT_EQ(backend().allocate(device_, nullptr, kBytes, &x_).code, StatusCode::kOk);
  }
  ~Waits() override {
    backend().free(device_, nullptr, x_);
    backend().close(device_);
    backend().set_reporter(nullptr);
    for (const char* name : {"GABBRO_SIM_FAIL", "GABBRO_SIM_HANG", "GABBRO_SIM_PATIENCE"}) ::unsetenv(name);
  }

  static const abi::Backend& backend() { return *gabbro_backend(); }

  void launch() {
    abi::TensorView view{.data = nullptr, .shape = {kCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
    const abi::KernelRequest request = {
        .op = "neg", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1};
    abi::BoundKernel kernel{};
    ASSERT_EQ(backend().find_kernel(device_, &request, &kernel).code, StatusCode::kOk);
    view.data = x_;
    const abi::Launch one = {
        .kernel = kernel.handle, .inputs = &view, .outputs = &view, .input_count = 1, .output_count = 1};
    EXPECT_EQ(backend().execute(device_, nullptr, &one, 1, nullptr).code, StatusCode::kOk);
    kernel_name_ = kernel.implementation;
    backend().release_kernel(device_, kernel.handle);  // its name lives on
  }

  static constexpr int64_t kCount = 100;
  static constexpr size_t kBytes = kCount * sizeof(float);
  abi::Device* device_ = nullptr;
  void* x_ = nullptr;
  std::string kernel_name_;
};

TEST_F(Waits, ThatLastAreReportedAndGoOn) {
  launch();
  const auto start = Clock::now();
  EXPECT_EQ(backend().synchronize(device_, nullptr).code, StatusCode::kOk);
  EXPECT_GE(seconds_since(start), 0.7);
  ASSERT_GE(g_lines.size(), 2U);
  EXPECT_LE(g_lines.size(), 4U);
  EXPECT_TRUE(g_lines[0].starts_with("sim: no progress for 0.2")) << g_lines[0];
  EXPECT_NE(g_lines[0].find("enqueued last, the newest first: " + kernel_name_), std::string::npos) << g_lines[0];
}

TEST_F(Waits, EndWhenTheyAreCanceled) {
  launch();
  abi::Event* event = nullptr;
  ASSERT_EQ(backend().create_event(device_, &event).code, StatusCode::kOk);
  ASSERT_EQ(backend().record(device_, nullptr, event).code, StatusCode::kOk);
  for (const bool by_event : {false, true}) {
    std::atomic<bool> cancel = false;
    Clock::time_point canceled;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      canceled = Clock::now();
      cancel = true;
    });
    const abi::Status status =
        by_event ? backend().await_event(device_, event, &cancel) : backend().await_stream(device_, nullptr, &cancel);
    const auto end = Clock::now();
    other.join();
    EXPECT_EQ(status.code, StatusCode::kCanceled);
    EXPECT_LT(std::chrono::duration<double>(end - canceled).count(), 0.1);
  }
  EXPECT_EQ(backend().await_event(device_, event, nullptr).code, StatusCode::kOk);
  EXPECT_EQ(backend().await_stream(device_, nullptr, nullptr).code, StatusCode::kOk);
  backend().destroy_event(device_, event);
}

TEST_F(Waits, LeaveTheStreamToOthers) {
  launch();
  std::thread waits([&] { EXPECT_EQ(backend().synchronize(device_, nullptr).code, StatusCode::kOk); });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const auto start = Clock::now();
  const float value = 1;
  EXPECT_EQ(backend().copy_to_device(device_, nullptr, x_, &value, sizeof value).code, StatusCode::kOk);
  EXPECT_LT(seconds_since(start), 0.2) << "the wait holds the stream";
  waits.join();
}

TEST(LaunchNames, TheLastComeFirstAndOnce) {
  for (int i = 0; i < 40; ++i) note_launch(keep_name("older " + std::to_string(i)));
  for (const char* name : {"a", "b", "a", "c"}) note_launch(keep_name(name));
  const char* names[32];
  ASSERT_EQ(last_launches(names, 32), 3 + 12);
  EXPECT_STREQ(names[0], "c");
  EXPECT_STREQ(names[1], "a");
  EXPECT_STREQ(names[2], "b");
  EXPECT_STREQ(names[3], "older 39");
  EXPECT_EQ(last_launches(names, 2), 2);
  EXPECT_EQ(keep_name("a"), keep_name(std::string("a")));
}

// Numbers of hip_runtime_api.h and cuda.h.
TEST(LostDevice, AfterErrorsThatStick) {
  for (const int error : {4, 100, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719})
    EXPECT_TRUE(is_lost(error)) << error;
  // Success, a bad value, out of memory, no binary for the GPU, not ready, out of resources, an unknown error.
  for (const int error : {0, 1, 2, 209, 600, 701, 999}) EXPECT_FALSE(is_lost(error)) << error;
}

}  // namespace
}  // namespace gabbro::gpu
