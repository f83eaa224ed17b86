// The simulator runs what is right, with 32 and with 64 lanes, and stops what would be undefined on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>

#include "backends/gpu/api.h"
#include "backends/gpu/sim/block.h"
#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/test_kernels.h"

namespace gabbro::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kCount = 300;  // floats; 1200 bytes are not a multiple of the alignment
constexpr int kSide = 16;       // of a tile for matrix cores

class Simulator : public testing::TestWithParam<int32_t> {
 protected:
  Simulator() { args_ = {.data = floats(), .index = 0, .out = floats()}; }
  ~Simulator() override {
    sim::release(args_.data);
    sim::release(args_.out);
    EXPECT_EQ(sim::allocation_count(), 0U);
  }

  // The device's message after it has run the kernel; empty if nothing is wrong.
  std::string run(const char* kernel, Dim grid = {}) {
    const std::unique_ptr<api::Context, decltype(&api::close)> context(api::open(GetParam()), api::close);
    const std::unique_ptr<api::Module, decltype(&api::unload_module)> module(api::load_module(context.get()),
                                                                             api::unload_module);
    const std::unique_ptr<api::Queue, decltype(&api::destroy_queue)> queue(api::create_queue(context.get()),
                                                                           api::destroy_queue);
    api::launch(queue.get(), api::find_function(module.get(), kernel), grid, &args_, sizeof args_, 1);
    try {
      api::synchronize(queue.get());
    } catch (const ApiError& error) {
      EXPECT_EQ(error.code, abi::StatusCode::kFailed);
      return error.what();
    }
    return {};
  }
  std::string run_at(const char* kernel, int64_t index) {
    args_.index = index;
    return run(kernel);
  }

  TestArgs args_;

 private:
  static float* floats() { return static_cast<float*>(sim::allocate(kCount * sizeof(float))); }
};

TEST_P(Simulator, RunsBarriersSharedMemoryAndWaveOperations) {
  constexpr int kThreads = 128;
  const int wave = GetParam() == 0 ? 32 : 64, waves = kThreads / wave;
  for (int i = 0; i < 2 * kThreads; ++i) args_.data[i] = static_cast<float>(i);
  ASSERT_EQ(run("test_reverse", {2}), "");
  for (int block = 0; block < 2; ++block) {
    const float* reversed = args_.out + block * kThreads;
    for (int t = 0; t < kThreads; ++t) ASSERT_EQ(reversed[t], args_.data[block * kThreads + kThreads - 1 - t]);
    const float* sums = args_.out + 2 * kThreads + block * (waves + 1);
    for (int w = 0; w < waves; ++w) {
      const float* first = args_.data + block * kThreads + w * wave;
      EXPECT_EQ(sums[w], std::accumulate(first, first + wave, 0.0f)) << "block " << block << ", wave " << w;
    }
    EXPECT_EQ(sums[waves], std::accumulate(sums, sums + waves, 0.0f)) << "block " << block;
  }
}

TEST_P(Simulator, MultipliesTiles) {
  constexpr int kElements = kSide * kSide;
  sim::release(args_.data);
  sim::release(args_.out);
  args_.data = static_cast<float*>(sim::allocate(3 * kElements * sizeof(float)));
  args_.out = static_cast<float*>(sim::allocate((4 * kElements + 2 * kSide) * sizeof(float)));
  // Integers, so that all sums are exact; small enough that a·bᵀ is exact in f16.
  for (int i = 0; i < 3 * kElements; ++i) args_.data[i] = static_cast<float>(i * 37 % 11 - 5 + (i / kElements == 2));
  const float *a = args_.data, *b = a + kElements, *c = b + kElements;
  ASSERT_EQ(run("test_matrix"), "");
  const float *product = args_.out, *transposed = product + kElements, *chained = transposed + kElements;
  for (int row = 0; row < kSide; ++row) {
    float largest = -1e30f, sum = 0;
    for (int column = 0; column < kSide; ++column) {
      float expected = 0, expected_transposed = 0, expected_chained = 0;
      for (int k = 0; k < kSide; ++k) {
        expected += a[row * kSide + k] * b[column * kSide + k];
        expected_transposed += a[row * kSide + k] * b[k * kSide + column];
        expected_chained += product[row * kSide + k] * c[k * kSide + column];
      }
      EXPECT_EQ(product[row * kSide + column], expected) << "a·bᵀ at " << row << ", " << column;
      EXPECT_EQ(transposed[row * kSide + column], expected_transposed) << "a·b at " << row << ", " << column;
      EXPECT_EQ(chained[row * kSide + column], expected_chained) << "(a·bᵀ)·c at " << row << ", " << column;
      largest = std::max(largest, expected);
      sum += expected;
    }
    EXPECT_EQ(chained[kElements + row], largest) << "largest of row " << row;
    EXPECT_EQ(chained[kElements + kSide + row], sum) << "sum of row " << row;
    const float* both = chained + kElements + 2 * kSide;
    for (int column = 0; column < kSide; ++column) {
      const float other = product[(row + kSide / 2) % kSide * kSide + column];
      EXPECT_EQ(both[row * kSide + column], product[row * kSide + column] + other) << "row " << row << " and its other";
    }
  }
}

TEST_P(Simulator, CalculatesWithPairsOfF16) {
  const float pairs[] = {1.5f, -3, 0.25f, 2048};
  std::copy_n(pairs, 4, args_.data);
  ASSERT_EQ(run("test_pairs"), "");
  // -3·2048 + 2048 is exact; so is each byte + 1024.
  EXPECT_THAT(std::span(args_.out, 8), testing::ElementsAre(1.75f, 2045, 0.625f, -4096, 1152, 1151, 1025, 1279));
}

TEST_P(Simulator, CopiesIntoTiles) {
  for (int i = 0; i < 256; ++i) args_.data[i] = static_cast<float>(i);
  ASSERT_EQ(run_at("test_tile_copy", 5), "");
  for (int i = 0; i < 256; ++i) {
    const int from = 63 - i / 4;
    ASSERT_EQ(args_.out[i], from == 5 ? 0 : static_cast<float>(from * 4 + i % 4)) << "at " << i;
  }
}

TEST_P(Simulator, LetsAccessesInsideBe) {
  for (const int64_t index : {int64_t{0}, static_cast<int64_t>(kCount) - 1}) {
    EXPECT_EQ(run_at("test_read", index), "");
    EXPECT_EQ(run_at("test_write", index), "");
  }
}

TEST_P(Simulator, StopsReadsOutside) {
  // The allocation ends at most 64 bytes before a page that may not be touched, and begins on the first page.
  EXPECT_THAT(run_at("test_read", kCount + 16),
              AllOf(HasSubstr("kernel test_read, block (0, 0, 0)"), HasSubstr("an allocation of 1200 bytes")));
  EXPECT_THAT(run_at("test_read", -1024),
              AllOf(HasSubstr("kernel test_read"), HasSubstr("before an allocation of 1200")));
}

TEST_P(Simulator, StopsWritesOutside) {
  EXPECT_THAT(run_at("test_write", kCount + 16), HasSubstr("access at byte 1264 of an allocation of 1200 bytes"));
  EXPECT_THAT(run_at("test_write", -1024), HasSubstr("before an allocation of 1200 bytes"));
}

TEST_P(Simulator, SeesWritesThatReachNoOtherPage) {
  EXPECT_THAT(run_at("test_write", kCount),
              AllOf(HasSubstr("kernel test_write"), HasSubstr("a write 0 bytes behind an allocation of 1200 bytes")));
  EXPECT_THAT(run_at("test_write", -2), HasSubstr("a write 8 bytes before an allocation of 1200 bytes"));
  EXPECT_EQ(run_at("test_write", 0), "") << "the mistake of one kernel is not the next one's";
}

TEST_P(Simulator, StopsAtABarrierThatAThreadMisses) {
  EXPECT_THAT(run("test_barrier"),
              AllOf(HasSubstr("127 threads at the barrier at test_kernels.cc:"), HasSubstr("1 threads ended")));
}

TEST_P(Simulator, StopsAtWaveOperationsThatLanesDoNotShare) {
  EXPECT_THAT(run("test_two_shuffles"),
              AllOf(HasSubstr("thread 7 is in the wave operation at test_kernels.cc:"), HasSubstr("another lane")));
  EXPECT_THAT(run("test_missing_lane"), HasSubstr("threads in the wave operation at test_kernels.cc:"));
}

TEST_P(Simulator, RefusesToFreeWhatIsNoAllocation) { EXPECT_THROW(sim::release(args_.data + 1), std::logic_error); }

INSTANTIATE_TEST_SUITE_P(Waves, Simulator, testing::Values(0, 1),
                         [](const auto& p) { return p.param == 0 ? "of_32" : "of_64"; });

}  // namespace
}  // namespace gabbro::gpu
