// The choice of --split auto for the sizes of 8B and 70B on fast and on slow links.
#include "src/engine/split_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gabbro {
namespace {

using testing::HasSubstr;

// Llama 3 in Q4_K_M on cards that read 3.32 TB/s of weights, as H200 do (0.301 us a MB).
SplitFacts facts(int64_t layers, double gigabytes, size_t devices, double sum_seconds) {
  SplitFacts f{.devices = {},
               .layers = layers,
               .bytes_per_token = static_cast<uint64_t>(gigabytes * 1e9),
               .no_layers = {},
               .no_tensors = {},
               .sum_seconds = sum_seconds,
               .hop_seconds = 10e-6};
  for (size_t i = 0; i < devices; ++i)
    f.devices.push_back({.name = "cuda:" + std::to_string(i), .bandwidth = 3.32e12, .holds_all = true});
  return f;
}

TEST(SplitChoice, TensorsWinForLargeModelsOnFastLinks) {
  const SplitChoice two = choose_split(facts(80, 41.0, 2, 5e-6));
  EXPECT_EQ(two.way, SplitWay::kTensors);
  EXPECT_NEAR(*two.one_device / *two.tensors, 1.62, 0.05);  // the ratio of the measured fit for 5 us
  EXPECT_NEAR(1 / *two.one_device, 70.2, 3);
  EXPECT_THAT(two.why, HasSubstr("by tensors: one device 7"));
  EXPECT_THAT(two.why, HasSubstr("a sum over the devices takes 5 us"));
  EXPECT_NEAR(*two.one_device / *choose_split(facts(80, 41.0, 4, 5e-6)).tensors, 2.52, 0.08);
}

TEST(SplitChoice, OneDeviceWinsOnSlowLinksAndForSmallModels) {
  const SplitChoice staged = choose_split(facts(80, 41.0, 2, 60e-6));
  EXPECT_EQ(staged.way, SplitWay::kOneDevice);
  EXPECT_THAT(staged.why, HasSubstr("one device, cuda:0: one device"));
  EXPECT_EQ(choose_split(facts(32, 4.6, 2, 14e-6)).way, SplitWay::kOneDevice);
  EXPECT_EQ(choose_split(facts(32, 4.6, 2, 5e-6)).way, SplitWay::kTensors);
}

TEST(SplitChoice, AModelThatOneDeviceDoesNotHoldIsSplit) {
  SplitFacts f = facts(80, 41.0, 2, 60e-6);
  for (auto& device : f.devices) device.holds_all = false;
  EXPECT_EQ(choose_split(f).way, SplitWay::kLayers);
  EXPECT_THAT(choose_split(f).why, HasSubstr("by layers: no device holds all of it; layers 71 "));
  f.sum_seconds = 5e-6;
  EXPECT_EQ(choose_split(f).way, SplitWay::kTensors);
  f.no_tensors = "'blk.0.x' has no cut";
  EXPECT_EQ(choose_split(f).way, SplitWay::kLayers);
  EXPECT_THAT(choose_split(f).why, HasSubstr("tensors: 'blk.0.x' has no cut"));
  f.no_tensors.clear();
  f.no_layers = "more devices than layers";
  EXPECT_EQ(choose_split(f).way, SplitWay::kTensors);
}

TEST(SplitChoice, TheFastestHolderIsTheOneDevice) {
  SplitFacts f = facts(80, 41.0, 3, 60e-6);
  f.devices[2].bandwidth = 4e12;
  f.devices[1].bandwidth = 5e12;
  f.devices[1].holds_all = false;
  EXPECT_EQ(choose_split(f).way, SplitWay::kOneDevice);
  EXPECT_EQ(choose_split(f).device, 2U);
}

TEST(SplitChoice, UnknownBandwidthsAndGivenShares) {
  SplitFacts f = facts(80, 41.0, 2, 5e-6);
  f.devices[1].bandwidth = 0;
  EXPECT_EQ(choose_split(f).way, SplitWay::kOneDevice);
  EXPECT_THAT(choose_split(f).why, HasSubstr("the memory bandwidth of cuda:1 is not known; cuda:0 holds the model"));
  f.devices[0].holds_all = f.devices[1].holds_all = false;
  EXPECT_EQ(choose_split(f).way, SplitWay::kLayers);
  SplitFacts shares = facts(80, 41.0, 2, 60e-6);
  shares.may_be_one = false;
  shares.devices[0].share = 3;
  EXPECT_EQ(choose_split(shares).way, SplitWay::kLayers);
  EXPECT_THAT(choose_split(shares).why, HasSubstr("shares are given"));
}

}  // namespace
}  // namespace gabbro
