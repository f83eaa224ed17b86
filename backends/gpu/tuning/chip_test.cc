#include "backends/gpu/tuning/chip.h"

#include <gtest/gtest.h>

namespace gabbro::gpu {
namespace {

// Thresholds that the rules compare with each other keep their order on every chip.
TEST(Chip, ThresholdsAreInOrder) {
  for (const char* const target : {"gfx1100", "gfx942", "sm_90", "sim32", "", "unknown"}) {
    const Chip& chip = find_chip(target);
    EXPECT_GE(chip.small_batch_tokens, 1) << target;
    EXPECT_LE(chip.small_batch_tokens, chip.untiled_tokens) << target;
    EXPECT_LE(chip.untiled_tokens, chip.measured_small_batch_tokens) << target;
    EXPECT_LE(chip.batch_tokens_16bit, chip.batch_tokens) << target;
    EXPECT_GE(chip.attention_blocks, 1) << target;
    EXPECT_GE(chip.split_keys, 1) << target;
  }
}

TEST(Chip, AnUnknownChipHasTheNumbersOfAllChips) {
  EXPECT_EQ(find_chip("unknown").target, "");
  EXPECT_EQ(&find_chip("unknown"), &find_chip(""));
}

}  // namespace
}  // namespace gabbro::gpu
