// Use of a device's memory, through the plugin's table, on the simulator.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::MemoryKind;
using abi::StatusCode;

const abi::Backend& backend() { return *gabbro_backend(); }

class Memory : public testing::TestWithParam<MemoryKind> {
 protected:
  Memory() { EXPECT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk); }
  ~Memory() override {
    backend().close(device_);
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }

  abi::PoolFacts facts(MemoryKind kind) {
    abi::PoolFacts facts{};
    EXPECT_EQ(backend().memory_facts(device_, kind, &facts).code, StatusCode::kOk);
    return facts;
  }
  void* allocate(size_t bytes) {
    void* pointer = nullptr;
    const abi::Status status = GetParam() == MemoryKind::kPinned
                                   ? backend().allocate_host(device_, bytes, &pointer)
                                   : backend().allocate(device_, nullptr, bytes, &pointer);
    EXPECT_EQ(status.code, StatusCode::kOk);
    return pointer;
  }
  void release(void* pointer) {
    if (GetParam() == MemoryKind::kPinned) return backend().free_host(device_, pointer);
    backend().free(device_, nullptr, pointer);
  }

  abi::Device* device_ = nullptr;
};

TEST_P(Memory, IsCounted) {
  void* const a = allocate(1000);
  void* const b = allocate(3000);
  release(a);
  abi::PoolFacts now = facts(GetParam());
  EXPECT_EQ(now.in_use, 3000U);
  EXPECT_EQ(now.reserved, 4000U);
  EXPECT_EQ(now.in_use_peak, 4000U);
  EXPECT_EQ(now.allocations, 2U);
  EXPECT_EQ(now.releases, 1U);
  const MemoryKind other = GetParam() == MemoryKind::kPinned ? MemoryKind::kDevice : MemoryKind::kPinned;
  EXPECT_EQ(facts(other).in_use, 0U);
  ASSERT_EQ(backend().reset_memory_facts(device_, GetParam()).code, StatusCode::kOk);
  now = facts(GetParam());
  EXPECT_EQ(now.in_use_peak, 3000U);
  EXPECT_EQ(now.allocations, 0U);
  release(b);
}

TEST_P(Memory, IsReservedAndGivenBack) {
  const size_t before = sim::allocated_bytes();
  ASSERT_EQ(backend().reserve(device_, GetParam(), size_t{1} << 20).code, StatusCode::kOk);
  EXPECT_EQ(sim::allocated_bytes() - before, size_t{1} << 20);
  void* const a = allocate(300000);
  void* const b = allocate(70000);
  EXPECT_EQ(sim::allocated_bytes() - before, size_t{1} << 20) << "the runtime was not asked";
  EXPECT_EQ(facts(GetParam()).hits, 2U);
  size_t bytes = 7;
  ASSERT_EQ(backend().trim(device_, GetParam(), &bytes).code, StatusCode::kOk);
  EXPECT_EQ(bytes, 0U) << "it is in use";
  release(a);
  release(b);
  ASSERT_EQ(backend().trim(device_, GetParam(), &bytes).code, StatusCode::kOk);
  EXPECT_EQ(bytes, size_t{1} << 20);
  EXPECT_EQ(sim::allocated_bytes(), before);
}

TEST_P(Memory, IsNotReservedWhereThereIsNone) {
  const abi::Status status = backend().reserve(device_, GetParam(), size_t{1} << 60);
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_EQ(facts(GetParam()).failures, 1U);
}

INSTANTIATE_TEST_SUITE_P(All, Memory, testing::Values(MemoryKind::kDevice, MemoryKind::kPinned),
                         [](const auto& test) { return test.param == MemoryKind::kPinned ? "Pinned" : "Device"; });

class RangeMemory : public testing::Test {
 protected:
  RangeMemory() { EXPECT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk); }
  ~RangeMemory() override {
    backend().close(device_);
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
    ::unsetenv("GABBRO_SIM_FAIL");
  }

  uint64_t in_use() {
    abi::PoolFacts facts{};
    EXPECT_EQ(backend().memory_facts(device_, MemoryKind::kDevice, &facts).code, StatusCode::kOk);
    EXPECT_EQ(facts.reserved, facts.in_use);
    return facts.in_use;
  }
  std::byte* reserve(size_t bytes) {
    void* range = nullptr;
    EXPECT_EQ(backend().reserve_range(device_, bytes, &range).code, StatusCode::kOk);
    return static_cast<std::byte*>(range);
  }

  abi::Device* device_ = nullptr;
};

TEST_F(RangeMemory, ComesByNeedAndKeepsItsContents) {
  std::byte* const range = reserve(100 * sim::kPage);
  EXPECT_EQ(in_use(), 0U);
  ASSERT_EQ(backend().extend_range(device_, range, 100).code, StatusCode::kOk);
  EXPECT_EQ(in_use(), sim::kPage);
  std::vector<char> written(sim::kPage, 7), read(sim::kPage);
  ASSERT_EQ(backend().copy_to_device(device_, nullptr, range, written.data(), written.size()).code, StatusCode::kOk);
  ASSERT_EQ(backend().extend_range(device_, range, 3 * sim::kPage).code, StatusCode::kOk);
  EXPECT_EQ(in_use(), 3 * sim::kPage);
  ASSERT_EQ(backend().extend_range(device_, range, 1).code, StatusCode::kOk) << "it never shrinks";
  EXPECT_EQ(in_use(), 3 * sim::kPage);
  ASSERT_EQ(backend().copy_to_host(device_, nullptr, read.data(), range, read.size()).code, StatusCode::kOk);
  EXPECT_EQ(read, written);
  backend().release_range(device_, range);
  EXPECT_EQ(in_use(), 0U);
  reserve(1);  // is released with the device
}

TEST_F(RangeMemory, IsAsItWasWhereThereIsNoMore) {
  backend().close(device_);
  ::setenv("GABBRO_SIM_FAIL", "malloc:1000", 1);
  ASSERT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk);
  std::byte* const range = reserve(2000 * sim::kPage);
  size_t pages = 0;
  abi::Status status;
  while (status.code == StatusCode::kOk && pages < 2000) {
    status = backend().extend_range(device_, range, (pages + 1) * sim::kPage);
    pages += status.code == StatusCode::kOk ? 1 : 0;
  }
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_EQ(in_use(), pages * sim::kPage);
  EXPECT_EQ(backend().extend_range(device_, range, (pages + 1) * sim::kPage).code, StatusCode::kOk);
}

// A driver that cannot: the test of the first range fails, and memory is allocated whole.
TEST_F(RangeMemory, IsRefusedWhereItDoesNotWork) {
  backend().close(device_);
  ::setenv("GABBRO_SIM_FAIL", "read:1", 1);
  ASSERT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk);
  void* range = nullptr;
  EXPECT_EQ(backend().reserve_range(device_, 1, &range).code, StatusCode::kUnsupported);
}

// Copies from pinned memory are asynchronous: the caller may fill that memory again once the stream has come so far.
TEST(PinnedMemory, MayBeWrittenAgainOnceItWasCopied) {
  abi::Device* device = nullptr;
  ASSERT_EQ(backend().open(0, nullptr, &device).code, StatusCode::kOk);
  void *host = nullptr, *memory = nullptr;
  ASSERT_EQ(backend().allocate_host(device, 1000, &host).code, StatusCode::kOk);
  ASSERT_EQ(backend().allocate(device, nullptr, 1000, &memory).code, StatusCode::kOk);
  EXPECT_TRUE(backend().is_pinned(device, static_cast<char*>(host) + 999));
  EXPECT_FALSE(backend().is_pinned(device, memory));
  std::memset(host, 1, 1000);
  ASSERT_EQ(backend().copy_to_device(device, nullptr, memory, host, 1000).code, StatusCode::kOk);
  ASSERT_EQ(backend().synchronize(device, nullptr).code, StatusCode::kOk);
  std::memset(host, 2, 1000);
  std::vector<char> read(1000);
  ASSERT_EQ(backend().copy_to_host(device, nullptr, read.data(), memory, 1000).code, StatusCode::kOk);
  EXPECT_EQ(read, std::vector<char>(1000, 1));
  backend().free_host(device, host);
  backend().free(device, nullptr, memory);
  backend().close(device);
}

}  // namespace
}  // namespace gabbro::gpu
