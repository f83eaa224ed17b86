// The kernels of all_reduce on several simulated devices at once, a thread of the host each, against sums on the host
// in the order of the ranks.
#include "kernels/collective/all_reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/gpu/sim/grid.h"
#include "src/base/half.h"

namespace gabbro::gpu {
namespace {

constexpr i64 kCapacity = 65536;
constexpr u64 kMinute = u64{60} * 1000 * 1000 * 1000;  // ns

struct Device {
  explicit Device(size_t ranks, u32 first_number)
      : flags(2 * kReduceBlocks * ranks * kFlagStep, first_number * kReduceSteps),
        partials(2 * (ranks - 1) * kCapacity),
        sums(2 * kCapacity),
        words(2 * ranks * kCapacity, u64{first_number} << 32),
        counters(kReduceBlocks, first_number) {}

  ReduceInbox inbox() { return {flags.data(), partials.data(), sums.data(), words.data()}; }

  std::vector<u32> flags;
  std::vector<float> partials, sums;
  std::vector<u64> words;
  std::vector<u32> counters;
};

// Bits of f32, f16 or bf16 as they are in memory.
template <class T>
T rounded(float value) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(value);
  } else {
    return T{float_to_half_bits(value)};
  }
}
template <class T>
float value_of(T bits) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(bits);
  } else {
    return half_bits_to_float(bits);
  }
}

struct Case {
  std::string kernel;
  size_t ranks;
  i64 count;
  u32 blocks;
  u32 first_number = 0;  // of all_reduces before
  bool has_addend = false;
};

// `rounds` all_reduces in a row, with other inputs each, and random delays. T: the bits of an element.
template <class T>
void expect_sums(const Case& c, int rounds) {
  std::vector<Device> devices;
  for (size_t rank = 0; rank < c.ranks; ++rank) devices.emplace_back(c.ranks, c.first_number);
  std::vector<ReduceInbox> inboxes;
  for (Device& device : devices) inboxes.push_back(device.inbox());
  const auto input = [&](size_t rank, int round) {
    std::mt19937 random(static_cast<u32>(1000 * round) + static_cast<u32>(rank));
    std::normal_distribution<float> normal;
    std::vector<T> values(static_cast<size_t>(c.count));
    for (T& value : values) value = rounded<T>(normal(random));
    return values;
  };
  u32 failure = 0;
  std::vector<std::vector<std::vector<T>>> results(c.ranks);
  const auto work = [&](size_t rank) {
    const sim::Registration* const kernel = sim::find_kernel(c.kernel.c_str(), rank % 2 == 0 ? 32 : 64);
    ASSERT_NE(kernel, nullptr);
    std::mt19937 random(static_cast<u32>(rank));
    for (int round = 0; round < rounds; ++round) {
      const std::vector<T> x = input(rank, round);
      const std::vector<T> addend = input(rank, round + rounds);
      std::vector<T> y(x.size());
      const AllReduceArgs args{.x = x.data(),
                               .addend = c.has_addend ? addend.data() : nullptr,
                               .y = y.data(),
                               .inboxes = inboxes.data(),
                               .counters = devices[rank].counters.data(),
                               .failure = &failure,
                               .count = c.count,
                               .capacity = kCapacity,
                               .rank = static_cast<u32>(rank),
                               .ranks = static_cast<u32>(c.ranks),
                               .most_ticks = kMinute};
      if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      EXPECT_EQ(sim::run_grid(*kernel, {c.blocks, 1, 1}, &args, nullptr), "");
      results[rank].push_back(y);
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < c.ranks; ++rank) threads.emplace_back(work, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failure, 0U);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<T>> inputs;
    for (size_t rank = 0; rank < c.ranks; ++rank) inputs.push_back(input(rank, round));
    std::vector<T> sums;
    for (size_t i = 0; i < inputs[0].size(); ++i) {
      float sum = value_of(inputs[0][i]);
      for (size_t rank = 1; rank < c.ranks; ++rank) sum += value_of(inputs[rank][i]);
      sums.push_back(rounded<T>(sum));
    }
    for (size_t rank = 0; rank < c.ranks; ++rank) {
      std::vector<T> expected = sums;
      const std::vector<T> addend = input(rank, round + rounds);
      for (size_t i = 0; c.has_addend && i < sums.size(); ++i)
        expected[i] = rounded<T>(value_of(sums[i]) + value_of(addend[i]));
      EXPECT_TRUE(results[rank][static_cast<size_t>(round)] == expected)
          << c.kernel << ", " << c.ranks << " ranks, " << c.count << " elements, round " << round << ", rank " << rank;
    }
  }
}

TEST(AllReduceKernels, AddUpInTheOrderOfTheRanks) {
  for (const char* const kernel : {"all_reduce_one_shot_f32", "all_reduce_two_shot_f32", "all_reduce_words_f32"}) {
    for (const size_t ranks : {1, 2, 3, 4}) {
      for (const i64 count : {1, 7, 5003}) expect_sums<u32>({kernel, ranks, count, 2}, 2);
    }
  }
  for (const char* const kernel : {"all_reduce_one_shot_f16", "all_reduce_two_shot_f16", "all_reduce_words_f16"})
    expect_sums<u16>({kernel, 3, 1001, 3}, 2);
}

// A block adds up one step while it sends the next one.
TEST(AllReduceKernels, AddUpInSteps) {
  const i64 of_step = 4 * kReduceVectors * kReduceThreads;
  for (const i64 count : {of_step, 2 * of_step + 5, 7 * of_step - 3})
    expect_sums<u32>({.kernel = "all_reduce_one_shot_f32", .ranks = 2, .count = count, .blocks = 2}, 3);
  expect_sums<u16>({.kernel = "all_reduce_one_shot_f16", .ranks = 3, .count = 3 * of_step + 1, .blocks = 1}, 2);
  expect_sums<u32>({"all_reduce_one_shot_f32", 2, 5 * of_step, 1, 0xffffffffU - 1}, 4);
}

// The sum is rounded before the addend comes, as it would be by another launch.
TEST(AllReduceKernels, AddWhatIsOnTheRank) {
  for (const char* const way : {"one_shot", "two_shot", "words"}) {
    const std::string name = std::string("all_reduce_") + way;
    expect_sums<u32>({.kernel = name + "_f32", .ranks = 3, .count = 5003, .blocks = 2, .has_addend = true}, 2);
    expect_sums<u16>({.kernel = name + "_f16", .ranks = 2, .count = 1001, .blocks = 3, .has_addend = true}, 2);
  }
}

// Half of the rounds are after the number of 32 bits has wrapped around; a rank may be one round ahead of another.
TEST(AllReduceKernels, GoOnAfterTheirCountersWrapAround) {
  for (const char* const kernel : {"all_reduce_one_shot_f32", "all_reduce_two_shot_f32", "all_reduce_words_f32"})
    expect_sums<u32>({kernel, 3, 300, 2, 0xffffffffU - 5}, 10);
}

// A rank that never comes ends the waits of the others, which name it.
TEST(AllReduceKernels, AMissingRankIsNamed) {
  for (const char* const name : {"all_reduce_one_shot_f32", "all_reduce_two_shot_f32", "all_reduce_words_f32"}) {
    Device device(3, 0), other(3, 0), missing(3, 0);
    const ReduceInbox inboxes[] = {device.inbox(), other.inbox(), missing.inbox()};
    const std::vector<float> x(100, 1.0f);
    u32 failure = 0;
    const auto work = [&](u32 rank, Device& own, u64 most_ticks) {
      std::vector<float> y(100);
      const AllReduceArgs args{.x = x.data(),
                               .addend = nullptr,
                               .y = y.data(),
                               .inboxes = inboxes,
                               .counters = own.counters.data(),
                               .failure = &failure,
                               .count = 100,
                               .capacity = kCapacity,
                               .rank = rank,
                               .ranks = 3,
                               .most_ticks = most_ticks};
      EXPECT_EQ(sim::run_grid(*sim::find_kernel(name, 32), {2, 1, 1}, &args, nullptr), "");
    };
    // The second would wait for a minute, but sees that the first has given up.
    std::thread second([&] { work(1, other, kMinute); });
    work(0, device, u64{200} * 1000 * 1000);
    second.join();
    EXPECT_NE(failure, 0U);
  }
}

}  // namespace
}  // namespace gabbro::gpu
