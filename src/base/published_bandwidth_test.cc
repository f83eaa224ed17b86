#include "src/base/published_bandwidth.h"

#include <gtest/gtest.h>

namespace gabbro {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

double gigabytes(std::string_view architecture, std::string_view name, uint64_t memory) {
  const auto found = published_bandwidth(architecture, name, memory);
  return found ? found->bytes_per_second / 1e9 : 0;
}

// Names and sizes as in the list of PCI devices and from the runtimes.
TEST(PublishedBandwidth, CardsThatShareATargetAreToldApart) {
  const auto navi31 = "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]";
  EXPECT_EQ(gigabytes("gfx1100", navi31, 24 * kGib), 960);
  EXPECT_EQ(gigabytes("gfx1100", navi31, 20 * kGib), 800);
  EXPECT_EQ(gigabytes("gfx1100", navi31, 16 * kGib), 576);
  EXPECT_EQ(gigabytes("gfx1100", "AMD Radeon RX 7900 XTX", 24 * kGib - (48 << 20)), 960);
  EXPECT_EQ(gigabytes("gfx942", "AMD Instinct MI300X", 192 * kGib), 5300);
  EXPECT_EQ(gigabytes("gfx942", "AMD Instinct MI325X", 256 * kGib), 6000);
  EXPECT_EQ(gigabytes("", "NVIDIA H100 PCIe", 80 * kGib), 2039);
  EXPECT_EQ(gigabytes("sm_90", "NVIDIA H100 80GB HBM3", 80 * kGib), 3352);
  EXPECT_EQ(gigabytes("sm_90", "NVIDIA H200", 141 * kGib), 4800);
  EXPECT_EQ(gigabytes("", "AD102 [GeForce RTX 4090]", 0), 1008);
  EXPECT_EQ(gigabytes("", "NVIDIA L40S", 0), 864);  // not the L4
}

TEST(PublishedBandwidth, WhatIsNotInTheTable) {
  EXPECT_EQ(gigabytes("gfx1036", "Raphael", kGib), 0);  // its memory is the machine's
  EXPECT_EQ(gigabytes("gfx9999", "Radeon", 16 * kGib), 0);
  EXPECT_EQ(gigabytes("", "GeForce 256", kGib), 0);
  EXPECT_EQ(published_bandwidth("gfx90a", "", 0)->source, "AMD's specifications");
}

}  // namespace
}  // namespace gabbro
