// Groups of simulated devices against sums on the host in the order of the ranks, in any order of the streams.
#include "src/backend/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <thread>

#include "gabbro/graph/eval.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/ops/ops.h"

namespace gabbro::group_test {
namespace {

using testing::HasSubstr;

class GroupTest : public testing::TestWithParam<const char*> {
 protected:
  GroupTest() {
    ::setenv("GABBRO_SIM_DEVICES", "4", 1);
    ::setenv("GABBRO_SIM_STREAM_SEED", GetParam(), 1);
  }
  ~GroupTest() override {
    ::unsetenv("GABBRO_SIM_DEVICES");
    ::unsetenv("GABBRO_SIM_STREAM_SEED");
  }

  static std::vector<std::shared_ptr<Device>> devices(int count) {
    std::vector<std::shared_ptr<Device>> all;
    for (int i = 0; i < count; ++i) all.push_back(open_device("sim:" + std::to_string(i)));
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, GroupTest, testing::Values("0", "1", "2"));

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Bits, so that NaN compares too.
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST_P(GroupTest, SumsInTheOrderOfTheRanks) {
  for (const int ranks : {2, 3, 4}) {
    const Group group(devices(ranks));
    for (const int64_t count : {1, 7, 4096}) {
      std::vector<Tensor> of_ranks;
      std::vector<float> expected(static_cast<size_t>(count), 0.0f);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float> values = random_values(count, static_cast<uint32_t>(10 * rank + ranks));
        if (count > 1 && rank == 1) values[1] = std::numeric_limits<float>::infinity();
        for (size_t i = 0; i < values.size(); ++i) expected[i] = rank == 0 ? values[i] : expected[i] + values[i];
        of_ranks.push_back(group.device(static_cast<size_t>(rank))->upload(DType::f32, Shape{count}, values.data()));
      }
      const std::vector<Tensor> sums = group.all_reduce(of_ranks);
      for (const Tensor& sum : sums)
        EXPECT_EQ(bits_of(to_host<float>(sum)), bits_of(expected)) << ranks << " " << count;
      const std::vector<Tensor> again = group.all_reduce(of_ranks);
      EXPECT_EQ(bits_of(to_host<float>(again.back())), bits_of(expected));
    }
  }
}

// Kernels before and after it, with no wait of the host in between.
TEST_P(GroupTest, IsOrderedWithKernels) {
  const Group group(devices(2));
  std::vector<Tensor> of_ranks;
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::vector<float> values(100, static_cast<float>(rank + 1));
    const Tensor x = group.device(rank)->upload(DType::f32, Shape{100}, values.data());
    of_ranks.push_back(x * scalar(x.device(), 3.0f));
    eval(std::span(&of_ranks.back(), 1));
  }
  for (Tensor& sum : group.all_reduce(of_ranks)) {
    const Tensor more = sum + scalar(sum.device(), 0.5f);
    EXPECT_EQ(to_host<float>(more), std::vector<float>(100, 9.5f));
  }
}

// Chains of sums in plans, a thread for each rank, against sums on the host; a rank that stops does not hold the others
// up, and all begin again after it.
TEST(GroupSums, AreLaunchesOfPlans) {
  ::setenv("GABBRO_SIM_DEVICES", "4", 1);
  ::setenv("GABBRO_SIM_RANK_SUMS", "1", 1);
  for (const size_t ranks : {2, 3}) {
    std::vector<std::shared_ptr<Device>> devices;
    for (size_t rank = 0; rank < ranks; ++rank) devices.push_back(open_device("sim:" + std::to_string(rank)));
    const Group group(devices);
    ASSERT_NE(group.rank_sums(), 0) << group.no_rank_sums();
    constexpr int64_t kCount = 301;
    constexpr int kChain = 3;
    std::vector<std::vector<float>> inputs;
    for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(random_values(kCount, static_cast<uint32_t>(rank)));
    // x := (the sum of all x) · (1 + rank)
    std::vector<std::vector<float>> expected = inputs;
    for (int i = 0; i < kChain; ++i) {
      std::vector<float> sum = expected[0];
      for (size_t rank = 1; rank < ranks; ++rank) {
        for (size_t e = 0; e < sum.size(); ++e) sum[e] += expected[rank][e];
      }
      for (size_t rank = 0; rank < ranks; ++rank) {
        for (size_t e = 0; e < sum.size(); ++e) expected[rank][e] = sum[e] * static_cast<float>(1 + rank);
      }
    }
    std::vector<std::vector<float>> results(ranks);
    const auto compute = [&](size_t rank) {
      const Tensor values = devices[rank]->upload(DType::f32, Shape{kCount}, inputs[rank].data());
      Tensor x = values;
      for (int i = 0; i < kChain; ++i)
        x = rank_sum(x, group.rank_sums(), rank) * scalar(devices[rank], static_cast<double>(1 + rank));
      results[rank] = to_host<float>(x);
    };
    const auto compute_all = [&](size_t first) {
      std::vector<std::thread> threads;
      for (size_t rank = first; rank < ranks; ++rank) threads.emplace_back(compute, rank);
      if (first > 0) group.stop_rank_sums();  // the first rank does not come
      for (std::thread& thread : threads) thread.join();
    };
    for (const size_t first : {0, 1, 0}) {
      group.begin_rank_sums();
      compute_all(first);
      EXPECT_EQ(group.late_rank(), std::nullopt);
      for (size_t rank = 0; first == 0 && rank < ranks; ++rank)
        EXPECT_EQ(bits_of(results[rank]), bits_of(expected[rank])) << ranks << " " << rank;
    }
  }
  ::unsetenv("GABBRO_SIM_RANK_SUMS");
  ::unsetenv("GABBRO_SIM_DEVICES");
}

TEST_P(GroupTest, GathersAlongTheFirstAxis) {
  const Group group(devices(3));
  std::vector<Tensor> of_ranks;
  std::vector<float> expected;
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::vector<float> values = random_values(10, static_cast<uint32_t>(rank));
    expected.insert(expected.end(), values.begin(), values.end());
    of_ranks.push_back(group.device(rank)->upload(DType::f32, Shape{2, 5}, values.data()));
  }
  for (const Tensor& all : group.all_gather(of_ranks)) {
    EXPECT_EQ(all.shape(), (Shape{6, 5}));
    EXPECT_EQ(to_host<float>(all), expected);
  }
}

TEST_P(GroupTest, OfOneDeviceIsTheIdentity) {
  const std::shared_ptr<Device> device = open_device("null");  // which has no collectives
  const Group group({device});
  const Tensor x = device->upload(DType::f32, Shape{3}, nullptr);
  EXPECT_EQ(&group.all_reduce(std::span(&x, 1)).front().state(), &x.state());
  EXPECT_EQ(&group.all_gather(std::span(&x, 1)).front().state(), &x.state());
}

TEST_P(GroupTest, RefusesOtherDevicesAndTensors) {
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::shared_ptr<Device> sim = open_device("sim:0"), null = open_device("null"), other = open_device("null");
  EXPECT_EQ(message([] { const Group group({}); }), "a group needs a device");
  EXPECT_EQ(message([&] { const Group group({sim, sim}); }), "a group has sim:0 twice");
  EXPECT_EQ(message([&] { const Group group({sim, null}); }), "a group has devices of one backend, not sim:0, null");
  EXPECT_EQ(message([&] {
              const Group group({null, other});
            }),
            "a group of null, null: the backend has no collectives");
  const Group group(devices(2));
  const Tensor a = group.device(0)->upload(DType::f32, Shape{4}, nullptr);
  const Tensor b = group.device(1)->upload(DType::f32, Shape{4}, nullptr);
  const Tensor ints = group.device(1)->upload(DType::i32, Shape{4}, nullptr);
  const auto reduce = [&](std::vector<Tensor> of_ranks) { return message([&] { group.all_reduce(of_ranks); }); };
  EXPECT_EQ(reduce({a}), "[all_reduce] 1 tensors for 2 ranks");
  EXPECT_EQ(reduce({b, a}), "[all_reduce] the tensor of rank 0 has no value on sim:0");
  EXPECT_EQ(reduce({a, ints}), "[all_reduce] the tensor of rank 1 is another than that of rank 0");
  EXPECT_EQ(reduce({a, b}), "");
}

}  // namespace
}  // namespace gabbro::group_test
