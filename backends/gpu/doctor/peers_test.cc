// Copies between devices through the plugin's table, on the simulator: they arrive, whatever the way is.
#include "backends/gpu/doctor/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

const abi::Backend& backend() { return *gabbro_backend(); }

class Peers : public testing::Test {
 protected:
  Peers() { ::setenv("GABBRO_TUNING_FILE", "", 1); }  // a verdict would be kept there
  ~Peers() override {
    close();
    ::unsetenv("GABBRO_TUNING_FILE");
    ::unsetenv("GABBRO_SIM_FAIL");
    ::unsetenv("GABBRO_PEER_COPIES");
    ::unsetenv("GABBRO_SIM_DEVICES");
    ::unsetenv("GABBRO_SIM_STREAM_SEED");
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }

  void open(const char* fault = "", int32_t to = 0, int32_t from = 1) {
    close();
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    ASSERT_EQ(backend().open(to, nullptr, &to_).code, StatusCode::kOk);
    ASSERT_EQ(backend().open(from, nullptr, &from_).code, StatusCode::kOk);
  }
  void close() {
    for (abi::Device** device : {&to_, &from_}) {
      if (*device != nullptr) backend().close(*device);
      *device = nullptr;
    }
  }

  static void* allocate(abi::Device* device, size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(backend().allocate(device, nullptr, bytes, &memory).code, StatusCode::kOk);
    return memory;
  }

  // Copies `bytes` bytes; one more byte on each side stays unchanged.
  void expect_arrives(size_t bytes) {
    std::vector<std::byte> sent(bytes + 2), before(bytes + 2, std::byte{0xee}), arrived(bytes + 2);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31 + i / 253);
    auto* source = static_cast<std::byte*>(allocate(from_, bytes + 2));
    auto* target = static_cast<std::byte*>(allocate(to_, bytes + 2));
    ASSERT_EQ(backend().copy_to_device(from_, nullptr, source, sent.data(), sent.size()).code, StatusCode::kOk);
    ASSERT_EQ(backend().copy_to_device(to_, nullptr, target, before.data(), before.size()).code, StatusCode::kOk);
    ASSERT_EQ(backend().synchronize(from_, nullptr).code, StatusCode::kOk);
    const abi::Status status = backend().copy_between(to_, nullptr, target + 1, from_, source + 1, bytes);
    ASSERT_EQ(status.code, StatusCode::kOk) << status.message;
    ASSERT_EQ(backend().copy_to_host(to_, nullptr, arrived.data(), target, arrived.size()).code, StatusCode::kOk);
    sent.front() = sent.back() = std::byte{0xee};
    EXPECT_TRUE(arrived == sent) << bytes << " bytes";
    backend().free(from_, nullptr, source);
    backend().free(to_, nullptr, target);
  }

  abi::PeerRoute route() {
    abi::PeerRoute route{};
    EXPECT_EQ(backend().peer_route(to_, from_, &route).code, StatusCode::kOk);
    return route;
  }

  abi::Device* to_ = nullptr;
  abi::Device* from_ = nullptr;
};

TEST_F(Peers, DevicesThatReachEachOtherCopyDirectly) {
  open();
  EXPECT_TRUE(route().direct);
  EXPECT_STREQ(route().reason, "");
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, 9 * kMiB + 1}) expect_arrives(bytes);
}

TEST_F(Peers, DamagedCopiesAreFoundByTheirChecksumAndStaged) {
  for (const char* fault : {"peer:1", "peer:2", "peer:3", "peer:4"}) {  // each of the test's sizes
    open(fault);
    EXPECT_FALSE(route().direct);
    EXPECT_THAT(route().reason, HasSubstr(" sent directly the checksum was ")) << fault;
    // Less than a stage, whole stages, and more.
    for (const size_t bytes : {size_t{0}, size_t{1}, 4 * kMiB - 1, 8 * kMiB, 13 * kMiB + 7}) expect_arrives(bytes);
  }
}

TEST_F(Peers, FailingAndMissingPathsAreStaged) {
  open("peer-error:1");
  EXPECT_THAT(route().reason, HasSubstr("injected failure of a copy between devices"));
  expect_arrives(kMiB);
  open("unreachable:1");
  EXPECT_THAT(route().reason, HasSubstr("do not reach each other's memory"));
  expect_arrives(kMiB);
  ::setenv("GABBRO_PEER_COPIES", "0", 1);
  open();
  EXPECT_STREQ(route().reason, "GABBRO_PEER_COPIES=0 asks for it");
  expect_arrives(5 * kMiB);
}

TEST_F(Peers, TheFasterRouteIsTaken) {
  open("peer-slow:1");
  EXPECT_FALSE(route().direct);
  EXPECT_THAT(route().reason,
              testing::MatchesRegex("direct copies reach 0.. GB/s, those through the host's memory .* GB/s"));
  expect_arrives(9 * kMiB + 1);
}

TEST_F(Peers, AFailureAfterTheTestIsAnError) {
  open("peer-error:8");  // after four copies of the test and three that are timed
  EXPECT_TRUE(route().direct);
  void *source = allocate(from_, 8), *target = allocate(to_, 8);
  const abi::Status status = backend().copy_between(to_, nullptr, target, from_, source, 8);
  EXPECT_EQ(status.code, StatusCode::kFailed);
  EXPECT_THAT(status.message, HasSubstr("injected failure of a copy between devices"));
}

// Events order the copies of two streams after the work that writes their sources, and that work after the copies, for
// each seed of the order of streams.
TEST_F(Peers, CopiesAreWorkOnAStream) {
  constexpr size_t kBytes = 5 * kMiB + 1;
  for (const char* const peers : {"1", "0"}) {  // directly, and through the host's memory
    for (int seed = 1; seed <= 3; ++seed) {
      ::setenv("GABBRO_PEER_COPIES", peers, 1);
      ::setenv("GABBRO_SIM_STREAM_SEED", std::to_string(seed).c_str(), 1);
      open();
      void *source = allocate(from_, kBytes), *pinned = nullptr;
      void* const targets[] = {allocate(to_, kBytes), allocate(to_, kBytes)};
      ASSERT_EQ(backend().allocate_host(from_, kBytes, &pinned).code, StatusCode::kOk);
      abi::Stream* stream = nullptr;
      abi::Event *written = nullptr, *copied = nullptr;
      ASSERT_EQ(backend().create_stream(to_, &stream).code, StatusCode::kOk);
      ASSERT_EQ(backend().create_event(from_, &written).code, StatusCode::kOk);
      ASSERT_EQ(backend().create_event(to_, &copied).code, StatusCode::kOk);
      for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(backend().synchronize(from_, nullptr).code, StatusCode::kOk);  // `pinned` has been read
        std::memset(pinned, 'a' + round, kBytes);
        ASSERT_EQ(backend().copy_to_device(from_, nullptr, source, pinned, kBytes).code, StatusCode::kOk);
        ASSERT_EQ(backend().record(from_, nullptr, written).code, StatusCode::kOk);
        ASSERT_EQ(backend().wait(to_, stream, written).code, StatusCode::kOk);
        const abi::Status status = backend().copy_between(to_, stream, targets[round], from_, source, kBytes);
        ASSERT_EQ(status.code, StatusCode::kOk) << status.message;
        ASSERT_EQ(backend().record(to_, stream, copied).code, StatusCode::kOk);
        ASSERT_EQ(backend().wait(from_, nullptr, copied).code, StatusCode::kOk);
      }
      for (int round = 0; round < 2; ++round) {
        std::vector<char> arrived(kBytes);
        ASSERT_EQ(backend().copy_to_host(to_, stream, arrived.data(), targets[round], kBytes).code, StatusCode::kOk);
        EXPECT_EQ(std::ranges::count(arrived, static_cast<char>('a' + round)), std::ssize(arrived)) << peers << seed;
      }
      ASSERT_EQ(backend().synchronize(from_, nullptr).code, StatusCode::kOk);
      backend().destroy_event(from_, written);
      backend().destroy_event(to_, copied);
      backend().destroy_stream(to_, stream);
      backend().free_host(from_, pinned);
      backend().free(from_, nullptr, source);
      for (void* const target : targets) backend().free(to_, nullptr, target);
      close();
      ::unsetenv("GABBRO_SIM_STREAM_SEED");
    }
  }
}

TEST_F(Peers, ACopyThatNothingOrdersIsAnError) {
  open();
  void *source = allocate(from_, 8), *target = allocate(to_, 8);
  EXPECT_TRUE(route().direct);
  const std::vector<std::byte> sent(8);
  ASSERT_EQ(backend().copy_to_device(from_, nullptr, source, sent.data(), 8).code, StatusCode::kOk);
  const abi::Status status = backend().copy_between(to_, nullptr, target, from_, source, 8);
  EXPECT_EQ(status.code, StatusCode::kFailed);
  EXPECT_THAT(status.message, HasSubstr("copy between devices"));
}

// Waves of 32 and of 64 lanes take turns.
TEST_F(Peers, ManyDevices) {
  ::setenv("GABBRO_SIM_DEVICES", "4", 1);
  ASSERT_EQ(backend().device_count(), 4);
  for (int32_t to = 0; to < 4; ++to) {
    abi::DeviceFacts facts{};
    ASSERT_EQ(backend().device_facts(to, &facts).code, StatusCode::kOk);
    EXPECT_EQ(facts.wave_size, to % 2 == 0 ? 32 : 64);
    open("", to, (to + 1) % 4);
    expect_arrives(4097);
  }
  for (const char* const wrong : {"0", "65", "two", "3x"}) {
    ::setenv("GABBRO_SIM_DEVICES", wrong, 1);
    abi::DeviceFacts facts{};
    const abi::Status status = backend().device_facts(0, &facts);
    EXPECT_EQ(status.code, StatusCode::kFailed);
    EXPECT_EQ(std::string(status.message),
              std::string("GABBRO_SIM_DEVICES: '") + wrong + "' is not a number from 1 to 64");
  }
}

TEST_F(Peers, ADeviceAndItself) {
  open("", 1, 1);  // opened twice
  EXPECT_TRUE(route().direct);
  expect_arrives(4097);
  backend().close(from_);
  from_ = to_;  // and one opened once
  expect_arrives(4097);
  from_ = nullptr;
}

TEST_F(Peers, NoMemoryForTheTestOrTheStages) {
  // Allocations of the receiver: three of the device, the test's, the stages'.
  open("malloc:4");
  EXPECT_STREQ(route().reason, "there is no memory to test them in");
  expect_arrives(100);
  ::setenv("GABBRO_PEER_COPIES", "0", 1);
  open("malloc:5");
  void *source = allocate(from_, 8), *target = allocate(to_, 8);
  const abi::Status status = backend().copy_between(to_, nullptr, target, from_, source, 8);
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_STREQ(status.message, "no pinned memory to copy through");
}

TEST_F(Peers, ALostDeviceIsNoRoute) {
  open("lost:1");
  abi::TensorView x{.data = nullptr, .shape = {4}, .strides = {1}, .rank = 1, .dtype = DType::f32}, y = x;
  const abi::KernelRequest request = {.op = "neg", .inputs = &x, .input_count = 1, .outputs = &y, .output_count = 1};
  abi::BoundKernel kernel{};
  ASSERT_EQ(backend().find_kernel(from_, &request, &kernel).code, StatusCode::kOk);
  x.data = y.data = allocate(from_, 16);
  const abi::Launch launch = {
      .kernel = kernel.handle, .inputs = &x, .outputs = &y, .input_count = 1, .output_count = 1};
  EXPECT_EQ(backend().execute(from_, nullptr, &launch, 1, nullptr).code, StatusCode::kOk);
  EXPECT_EQ(backend().execute(from_, nullptr, &launch, 1, nullptr).code, StatusCode::kLost);
  abi::PeerRoute route{};
  EXPECT_EQ(backend().peer_route(to_, from_, &route).code, StatusCode::kLost);
  backend().release_kernel(from_, kernel.handle);
}

}  // namespace
}  // namespace gabbro::gpu
