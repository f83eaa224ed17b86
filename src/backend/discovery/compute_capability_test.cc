#include "src/backend/discovery/compute_capability.h"

#include <gtest/gtest.h>

namespace gabbro::discovery {
namespace {

// Device ids of pci.ids, capabilities of NVIDIA's list of CUDA GPUs.
TEST(ComputeCapability, IsThatOfTheChip) {
  EXPECT_EQ(compute_capability(0x1db6), 70);   // Tesla V100
  EXPECT_EQ(compute_capability(0x1eb8), 75);   // Tesla T4
  EXPECT_EQ(compute_capability(0x2184), 75);   // GeForce GTX 1660
  EXPECT_EQ(compute_capability(0x20b5), 80);   // A100
  EXPECT_EQ(compute_capability(0x2204), 86);   // GeForce RTX 3090
  EXPECT_EQ(compute_capability(0x2503), 86);   // GeForce RTX 3060
  EXPECT_EQ(compute_capability(0x2330), 90);   // H100 SXM5
  EXPECT_EQ(compute_capability(0x2335), 90);   // H200
  EXPECT_EQ(compute_capability(0x2684), 89);   // GeForce RTX 4090
  EXPECT_EQ(compute_capability(0x2882), 89);   // GeForce RTX 4060
  EXPECT_EQ(compute_capability(0x2901), 100);  // B200
  EXPECT_EQ(compute_capability(0x2b85), 120);  // GeForce RTX 5090
  EXPECT_EQ(compute_capability(0x2f04), 120);  // GeForce RTX 5070
}

TEST(ComputeCapability, IsZeroForOtherChips) {
  EXPECT_EQ(compute_capability(0x1b80), 0);  // GeForce GTX 1080
  EXPECT_EQ(compute_capability(0xffff), 0);
}

}  // namespace
}  // namespace gabbro::discovery
