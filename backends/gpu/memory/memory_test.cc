// Use of a device's memory, through the plugin's table, on the simulator.
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

TEST_P(Memory, IsReservedAndReleased) {
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
    EXPECT_EQ(sim::allocation_count(), lost_) << "a closed device left memory behind";
    sim::release_all();
    ::unsetenv("GABBRO_SIM_FAIL");
  }

  void reopen(const char* fault) {
    backend().close(device_);
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    EXPECT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk);
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
  size_t lost_ = 0;  // ranges that the runtime did not take back
};

TEST_F(RangeMemory, ComesByNeedAndKeepsItsContents) {
  std::byte* const range = reserve(100 * sim::kPage);
  EXPECT_EQ(in_use(), 0U);
  ASSERT_EQ(backend().extend_range(device_, range, 100).code, StatusCode::kOk);
  EXPECT_EQ(in_use(), 2 * sim::kPage) << "1/64 of 100 pages, rounded up";
  std::vector<char> written(sim::kPage, 7), read(sim::kPage);
  ASSERT_EQ(backend().copy_to_device(device_, nullptr, range, written.data(), written.size()).code, StatusCode::kOk);
  ASSERT_EQ(backend().extend_range(device_, range, 20 * sim::kPage).code, StatusCode::kOk);
  EXPECT_EQ(in_use(), 20 * sim::kPage);
  ASSERT_EQ(backend().extend_range(device_, range, 1).code, StatusCode::kOk) << "it never shrinks";
  EXPECT_EQ(in_use(), 20 * sim::kPage);
  ASSERT_EQ(backend().extend_range(device_, range, 20 * sim::kPage + 1).code, StatusCode::kOk);
  EXPECT_EQ(in_use(), 25 * sim::kPage) << "a quarter of what was there";
  ASSERT_EQ(backend().copy_to_host(device_, nullptr, read.data(), range, read.size()).code, StatusCode::kOk);
  EXPECT_EQ(read, written);
  backend().release_range(device_, range);
  EXPECT_EQ(in_use(), 0U);
  reserve(1);  // is released with the device
}

// Each extension is a call of the runtime for every range of a cache.
TEST_F(RangeMemory, IsExtendedAtMost20Times) {
  for (const size_t pages : {1, 2, 63, 64, 1000, 100000}) {
    std::byte* const range = reserve(pages * sim::kPage);
    size_t extensions = 0;
    for (size_t page = 1; page <= pages; page += std::max<size_t>(pages / 1000, 1)) {
      const uint64_t before = in_use();
      ASSERT_EQ(backend().extend_range(device_, range, page * sim::kPage).code, StatusCode::kOk);
      extensions += in_use() > before ? 1 : 0;
    }
    EXPECT_LE(extensions, 20U) << pages;
    EXPECT_LE(in_use(), pages * sim::kPage);
    backend().release_range(device_, range);
  }
}

TEST_F(RangeMemory, IsAsItWasIfThereIsNoMore) {
  reopen("ranges:262144");  // 64 pages; the test of ranges takes 36
  std::byte* const range = reserve(2000 * sim::kPage);
  size_t pages = 0;
  abi::Status status;
  while (status.code == StatusCode::kOk && pages < 2000) {
    status = backend().extend_range(device_, range, (pages + 1) * sim::kPage);
    pages += status.code == StatusCode::kOk ? 1 : 0;
  }
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_EQ(pages, 64U) << "also the pages that are less than a quarter more";
  EXPECT_EQ(in_use(), pages * sim::kPage);
  std::byte* const other = reserve(sim::kPage);
  EXPECT_EQ(backend().extend_range(device_, other, 1).code, StatusCode::kOutOfMemory);
  backend().release_range(device_, range);
  EXPECT_EQ(backend().extend_range(device_, other, 1).code, StatusCode::kOk);
}

// A driver that cannot: the test of the first range fails, and memory is allocated whole.
TEST_F(RangeMemory, IsRefusedIfItDoesNotWork) {
  for (const char* fault : {"read:20", "access:17", "unmap:3"}) {
    reopen(fault);
    void* range = nullptr;
    EXPECT_EQ(backend().reserve_range(device_, 1, &range).code, StatusCode::kUnsupported) << fault;
    EXPECT_EQ(in_use(), 0U);
  }
  lost_ = 1;
}

TEST_F(RangeMemory, IsTestedAgainIfThereWasNoMemoryToTestIt) {
  reopen("malloc:20");
  void* range = nullptr;
  EXPECT_EQ(backend().reserve_range(device_, 1, &range).code, StatusCode::kUnsupported);
  EXPECT_EQ(backend().reserve_range(device_, 1, &range).code, StatusCode::kOk);
}

// The runtime refuses a piece: what a range has stays, it may grow later, and the next cache is allocated whole.
TEST_F(RangeMemory, GoesOnAfterAPieceWasRefused) {
  reopen("access:22");  // the test of ranges maps 20
  std::byte* const range = reserve(100 * sim::kPage);
  ASSERT_EQ(backend().extend_range(device_, range, sim::kPage).code, StatusCode::kOk);
  const uint64_t before = in_use();
  const abi::Status status = backend().extend_range(device_, range, 10 * sim::kPage);
  EXPECT_EQ(status.code, StatusCode::kFailed);
  EXPECT_STREQ(status.message, "sim: injected failure of giving access to a range");
  EXPECT_EQ(in_use(), before);
  EXPECT_EQ(backend().extend_range(device_, range, 10 * sim::kPage).code, StatusCode::kOk);
  void* next = nullptr;
  const abi::Status refused = backend().reserve_range(device_, 1, &next);
  EXPECT_EQ(refused.code, StatusCode::kUnsupported);
  EXPECT_STREQ(refused.message, status.message);
  backend().release_range(device_, range);
  EXPECT_EQ(in_use(), 0U);
}

// Memory that the runtime does not take back is gone, and counted so.
TEST_F(RangeMemory, StaysInUseIfItIsNotUnmapped) {
  reopen("unmap:22");  // the test of ranges unmaps 20
  std::byte* const range = reserve(100 * sim::kPage);
  for (const size_t pages : {2, 10, 13})
    ASSERT_EQ(backend().extend_range(device_, range, pages * sim::kPage).code, StatusCode::kOk);
  backend().release_range(device_, range);
  EXPECT_EQ(in_use(), 8 * sim::kPage) << "the second piece from the end";
  void* next = nullptr;
  EXPECT_EQ(backend().reserve_range(device_, 1, &next).code, StatusCode::kUnsupported);
  lost_ = 1;
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
