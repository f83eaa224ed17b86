#include "backends/gpu/hip/bandwidth.h"

#include <gtest/gtest.h>

namespace gabbro::gpu::hip {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(Bandwidth, IsThePublishedOne) {
  // HIP's clock of a 7900 XTX: 1249 MHz on 384 bits gives 120 GB/s.
  EXPECT_DOUBLE_EQ(bandwidth_of("gfx1100", "Radeon RX 7900 XTX", 24 * kGiB, {1249000, 384}), 960e9);
  EXPECT_DOUBLE_EQ(bandwidth_of("gfx1151", "Radeon 8060S", 96 * kGiB, {1000000, 256}), 256e9);
  EXPECT_DOUBLE_EQ(bandwidth_of("gfx942:sramecc+:xnack-", "MI300X", 192 * kGiB, {2525000, 8192}), 5300e9);
}

TEST(Bandwidth, IsThatOfTheClockForHbmOnly) {
  EXPECT_DOUBLE_EQ(bandwidth_of("gfx900", "Vega 64", 8 * kGiB, {945000, 2048}), 483.84e9);
  EXPECT_EQ(bandwidth_of("gfx1036", "Radeon Graphics", 16 * kGiB, {1800000, 128}), 0);  // an APU
  EXPECT_EQ(bandwidth_of("gfx1199", "a later card", 16 * kGiB, {1249000, 256}), 0);
}

}  // namespace
}  // namespace gabbro::gpu::hip
