// Copies of pageable memory, which the simulator refuses in one piece as large as those here.
#include "backends/gpu/memory/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "backends/gpu/doctor/test_pattern.h"
#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;

const abi::Backend& backend() { return *gabbro_backend(); }

constexpr size_t kSizes[] = {1,
                             Staging::kDirectBytes,
                             Staging::kDirectBytes + 1,
                             api::kPageableBytes + 1,
                             Staging::kStageBytes,
                             3 * Staging::kStageBytes + 4097};

class PageableCopies : public testing::Test {
 protected:
  PageableCopies() { EXPECT_EQ(backend().open(0, nullptr, &device_).code, StatusCode::kOk); }
  ~PageableCopies() override {
    backend().close(device_);
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }

  abi::Device* device_ = nullptr;
};

TEST_F(PageableCopies, OfAnySizeArrive) {
  for (const size_t bytes : kSizes) {
    void* memory = nullptr;
    ASSERT_EQ(backend().allocate(device_, nullptr, bytes, &memory).code, StatusCode::kOk);
    std::vector<std::byte> sent = test_pattern(bytes, 5), arrived(bytes);
    const std::vector<std::byte> expected = sent;
    ASSERT_EQ(backend().copy_to_device(device_, nullptr, memory, sent.data(), bytes).code, StatusCode::kOk) << bytes;
    std::ranges::fill(sent, std::byte{0});  // it has been read
    ASSERT_EQ(backend().copy_to_host(device_, nullptr, arrived.data(), memory, bytes).code, StatusCode::kOk) << bytes;
    EXPECT_EQ(arrived, expected) << bytes;
    backend().free(device_, nullptr, memory);
  }
}

TEST_F(PageableCopies, KeepTheirStages) {
  constexpr size_t kBytes = 5 * Staging::kStageBytes;
  void* memory = nullptr;
  ASSERT_EQ(backend().allocate(device_, nullptr, kBytes, &memory).code, StatusCode::kOk);
  const std::vector<std::byte> sent(kBytes);
  size_t first = 0;
  for (int copy = 0; copy < 3; ++copy) {
    ASSERT_EQ(backend().copy_to_device(device_, nullptr, memory, sent.data(), kBytes).code, StatusCode::kOk);
    if (copy == 0) first = sim::allocation_count();
    EXPECT_EQ(sim::allocation_count(), first);
  }
  backend().free(device_, nullptr, memory);
}

// Copies on two streams by turns, while both copy out of the stages.
TEST_F(PageableCopies, OfTwoStreamsShareTheStages) {
  constexpr size_t kBytes = Staging::kStageBytes + 5, kStreams = 2;
  abi::Stream* streams[kStreams] = {};
  void* memory[kStreams] = {};
  for (size_t i = 0; i < kStreams; ++i) {
    ASSERT_EQ(backend().create_stream(device_, &streams[i]).code, StatusCode::kOk);
    ASSERT_EQ(backend().allocate(device_, streams[i], kBytes, &memory[i]).code, StatusCode::kOk);
  }
  for (uint32_t turn = 0; turn < 4; ++turn) {
    for (size_t i = 0; i < kStreams; ++i) {
      const std::vector<std::byte> sent = test_pattern(kBytes, turn * 2 + static_cast<uint32_t>(i));
      ASSERT_EQ(backend().copy_to_device(device_, streams[i], memory[i], sent.data(), kBytes).code, StatusCode::kOk);
    }
  }
  for (size_t i = 0; i < kStreams; ++i) {
    std::vector<std::byte> arrived(kBytes);
    ASSERT_EQ(backend().copy_to_host(device_, streams[i], arrived.data(), memory[i], kBytes).code, StatusCode::kOk);
    EXPECT_EQ(arrived, test_pattern(kBytes, 6 + static_cast<uint32_t>(i)));
    backend().free(device_, streams[i], memory[i]);
    backend().destroy_stream(device_, streams[i]);
  }
}

// With several threads that fill a stage, and without a stage: the first pinned allocation fails then.
TEST(Staging, CopiesInBothDirections) {
  constexpr size_t kBytes = 2 * Staging::kStageBytes + 12345;
  for (const bool pinned : {true, false}) {
    if (!pinned) ::setenv("GABBRO_SIM_FAIL", "malloc:2", 1);
    api::Context* const context = api::open(0);
    ::unsetenv("GABBRO_SIM_FAIL");
    void* const memory = api::allocate(context, kBytes);
    api::Queue* const queue = api::create_queue(context);
    {
      Staging staging(context, 3);
      const std::vector<std::byte> sent = test_pattern(kBytes, 9);
      std::vector<std::byte> arrived(kBytes);
      staging.copy_to_device(queue, memory, sent.data(), kBytes);
      EXPECT_EQ(sim::allocation_count(), pinned ? 3U : 1U);
      staging.copy_to_host(queue, arrived.data(), memory, kBytes);
      EXPECT_EQ(arrived, sent);
      api::synchronize(queue);
    }
    api::destroy_queue(queue);
    api::release(context, memory);
    api::close(context);
    EXPECT_EQ(sim::allocation_count(), 0U);
  }
}

TEST(ParallelCopy, CopiesEveryByteOnce) {
  for (const int threads : {1, 2, 5}) {
    ParallelCopy copies(threads);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{4} << 20) + 3}) {
      const std::vector<std::byte> from = test_pattern(bytes, 7);
      std::vector<std::byte> to(bytes + 1);
      copies.copy(to.data(), from.data(), bytes);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << threads << " " << bytes;
      EXPECT_EQ(to.back(), std::byte{0});
    }
  }
}

}  // namespace
}  // namespace gabbro::gpu
