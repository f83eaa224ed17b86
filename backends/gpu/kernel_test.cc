#include "backends/gpu/kernel.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace gabbro::gpu {
namespace {

void expect_grid(const Dim& found, uint32_t x, uint32_t z) {
  EXPECT_EQ(found.x, x);
  EXPECT_EQ(found.y, 1U);
  EXPECT_EQ(found.z, z);
}

// HIP takes less than 2^32 threads along x, so blocks of 256 fill 2^24 - 1.
TEST(FlatGrid, HasSlicesBeyondTheLimitOfX) {
  expect_grid(flat_grid(0, 256), 0, 1);
  expect_grid(flat_grid(257, 256), 2, 1);
  expect_grid(flat_grid(((int64_t{1} << 24) - 1) * 256 * 4, 256, 4), (1U << 24) - 1, 1);
  expect_grid(flat_grid(((int64_t{1} << 24) - 1) * 256 * 4 + 1, 256, 4), 1U << 23, 2);
  expect_grid(flat_grid(int64_t{1} << 35, 256), 14913081, 9);
  ::setenv("GABBRO_SIM_GRID", "512", 1);
  expect_grid(flat_grid(5 * 256, 256), 2, 3);
  ::unsetenv("GABBRO_SIM_GRID");
}

}  // namespace
}  // namespace gabbro::gpu
