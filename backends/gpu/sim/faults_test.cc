// Injected faults, and requests to stop, come out of the plugin's functions as the right status; after each the device
// can be closed, and another opened and used.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;

constexpr int64_t kCount = 300;
constexpr size_t kBytes = kCount * sizeof(float);

class Faults : public testing::Test {
 protected:
  ~Faults() override {
    ::unsetenv("GABBRO_SIM_FAIL");
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }

  // A device with this fault, or none. Its first allocation is its own (GpuDevice's counters).
  static abi::Device* open(const char* fault) {
    if (fault == nullptr) {
      ::unsetenv("GABBRO_SIM_FAIL");
    } else {
      ::setenv("GABBRO_SIM_FAIL", fault, 1);
    }
    abi::Device* device = nullptr;
    EXPECT_EQ(backend().open(0, nullptr, &device).code, StatusCode::kOk);
    return device;
  }

  static const abi::Backend& backend() { return *gabbro_backend(); }

  static void* allocate(abi::Device* device, size_t bytes, StatusCode expected = StatusCode::kOk) {
    void* memory = nullptr;
    const abi::Status status = backend().allocate(device, nullptr, bytes, &memory);
    EXPECT_EQ(status.code, expected) << status.message;
    EXPECT_EQ(memory == nullptr, expected != StatusCode::kOk);
    return memory;
  }

  static abi::TensorView vector(int64_t count) {
    return {.shape = {count}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  }

  // y = -x
  static abi::Status negate(abi::Device* device, void* x, void* y, int64_t count = kCount,
                            const std::atomic<bool>* cancel = nullptr) {
    abi::TensorView in = vector(count), out = vector(count);
    const abi::KernelRequest request = {
        .op = "neg", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
    abi::BoundKernel kernel{};
    EXPECT_EQ(backend().find_kernel(device, &request, &kernel).code, StatusCode::kOk);
    in.data = x;
    out.data = y;
    const abi::Launch launch = {
        .kernel = kernel.handle, .inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};
    const abi::Status status = backend().execute(device, nullptr, &launch, 1, cancel);
    backend().release_kernel(device, kernel.handle);
    return status;
  }

  static void expect_works(abi::Device* device) {
    void *x = allocate(device, kBytes), *y = allocate(device, kBytes);
    std::array<float, kCount> values;
    values.fill(2);
    ASSERT_EQ(backend().copy_to_device(device, nullptr, x, values.data(), kBytes).code, StatusCode::kOk);
    ASSERT_EQ(negate(device, x, y).code, StatusCode::kOk);
    ASSERT_EQ(backend().copy_to_host(device, nullptr, values.data(), y, kBytes).code, StatusCode::kOk);
    for (const float value : values) ASSERT_EQ(value, -2);
    backend().free(device, nullptr, x);
    backend().free(device, nullptr, y);
  }

  static void expect_next_device_works() {
    abi::Device* device = open(nullptr);
    expect_works(device);
    backend().close(device);
  }
};

TEST_F(Faults, NoneWithoutTheVariable) { expect_next_device_works(); }

TEST_F(Faults, AnAllocationFails) {
  abi::Device* device = open("malloc:5");
  void* first = allocate(device, kBytes);
  allocate(device, kBytes, StatusCode::kOutOfMemory);
  void* third = allocate(device, kBytes);  // the device goes on
  backend().free(device, nullptr, first);
  backend().free(device, nullptr, third);
  expect_works(device);
  backend().close(device);
  expect_next_device_works();
}

TEST_F(Faults, ADeviceWithoutMemoryForItselfIsNotOpened) {
  ::setenv("GABBRO_SIM_FAIL", "malloc:1", 1);
  abi::Device* device = nullptr;
  EXPECT_EQ(backend().open(0, nullptr, &device).code, StatusCode::kOutOfMemory);
  expect_next_device_works();
}

TEST_F(Faults, OutOfMemoryNamesTheSize) {
  abi::Device* device = open("malloc:4");
  void* memory = nullptr;
  const abi::Status status = backend().allocate(device, nullptr, 1234567, &memory);
  EXPECT_NE(std::string(status.message).find("1234567 bytes"), std::string::npos) << status.message;
  backend().close(device);
}

TEST_F(Faults, ALaunchFailsAndTheDeviceWithIt) {
  abi::Device* device = open("launch:2");
  expect_works(device);
  void* x = allocate(device, kBytes);
  EXPECT_EQ(negate(device, x, x).code, StatusCode::kOk) << "a launch is reported by what waits for it";
  for (int again = 0; again < 2; ++again) {
    const abi::Status status = backend().synchronize(device, nullptr);
    EXPECT_EQ(status.code, StatusCode::kFailed);
    EXPECT_STREQ(status.message, "sim: injected failure of a launch");
  }
  float value = 0;
  EXPECT_EQ(backend().copy_to_host(device, nullptr, &value, x, sizeof value).code, StatusCode::kFailed);
  backend().close(device);  // with memory that was not freed
  expect_next_device_works();
}

TEST_F(Faults, TheDeviceIsLost) {
  abi::Device* device = open("lost:1");
  void *x = allocate(device, kBytes), *y = allocate(device, kBytes);
  ASSERT_EQ(negate(device, x, y).code, StatusCode::kOk);
  const abi::Status status = negate(device, x, y);
  EXPECT_EQ(status.code, StatusCode::kLost);
  EXPECT_STREQ(status.message, "sim: the device was lost");
  float value = 0;
  EXPECT_EQ(backend().synchronize(device, nullptr).code, StatusCode::kLost);
  EXPECT_EQ(backend().copy_to_device(device, nullptr, x, &value, sizeof value).code, StatusCode::kLost);
  EXPECT_EQ(backend().copy_to_host(device, nullptr, &value, x, sizeof value).code, StatusCode::kLost);
  allocate(device, 2 * kBytes, StatusCode::kLost);
  backend().free(device, nullptr, x);
  backend().close(device);
  expect_next_device_works();
}

TEST_F(Faults, SeveralAreJoinedWithCommas) {
  abi::Device* device = open("malloc:5,launch:1");
  void* x = allocate(device, kBytes);
  allocate(device, kBytes, StatusCode::kOutOfMemory);
  EXPECT_EQ(negate(device, x, x).code, StatusCode::kOk);
  EXPECT_EQ(backend().synchronize(device, nullptr).code, StatusCode::kFailed);
  backend().close(device);
  expect_next_device_works();
}

TEST_F(Faults, ALaunchIsLeftWhenItIsCanceled) {
  constexpr int64_t kMany = int64_t{1} << 28;  // minutes
  abi::Device* device = open(nullptr);
  void* x = allocate(device, kMany * sizeof(float));
  std::atomic<bool> cancel{false};
  std::chrono::steady_clock::time_point requested;
  std::thread canceler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    requested = std::chrono::steady_clock::now();
    cancel = true;
  });
  EXPECT_EQ(negate(device, x, x, kMany, &cancel).code, StatusCode::kCanceled);
  const auto late = std::chrono::steady_clock::now() - requested;
  canceler.join();
  EXPECT_LT(std::chrono::duration<double>(late).count(), 5);
  EXPECT_EQ(backend().synchronize(device, nullptr).code, StatusCode::kOk);
  expect_works(device);
  backend().free(device, nullptr, x);
  backend().close(device);
}

}  // namespace
}  // namespace gabbro::gpu
