// Masks: how they are reduced to latents, and what is pasted.
#include "src/pictures/masks.h"

#include <gtest/gtest.h>

#include "src/pictures/latent_resize.h"
#include "src/pictures/noise/batch_noise.h"

namespace gabbro::pictures {
namespace {

TEST(Masks, are_reduced_by_the_rules_of_programs) {
  images::Picture mask{.width = 8, .height = 4, .channels = 1};
  mask.pixels.assign(32, 0);
  mask.pixels[0] = 127;                                      // first block: one pixel, its first
  for (size_t i : {5u, 6u, 13u, 14u}) mask.pixels[i] = 255;  // second block: 4 of 16, two of them at its center
  EXPECT_EQ(reduce_mask(mask, 4, MaskReduction::kAny), (std::vector<float>{1, 1}));
  EXPECT_EQ(reduce_mask(mask, 4, MaskReduction::kNearest), (std::vector<float>{0, 0}));
  EXPECT_EQ(reduce_mask(mask, 4, MaskReduction::kBilinear), (std::vector<float>{0, 0.5f}));
  EXPECT_EQ(reduce_mask(mask, 4, MaskReduction::kMean), (std::vector<float>{0, 0}));
  mask.pixels.assign(32, 255);
  for (const Program like : {Program::kGabbro, Program::kDiffusers, Program::kComfyUi, Program::kA1111})
    EXPECT_EQ(reduce_mask(mask, 4, mask_reduction(like)), (std::vector<float>{1, 1}));
  EXPECT_EQ(reduce_mask(mask, 1, MaskReduction::kBilinear), std::vector<float>(32, 1));
}

TEST(Masks, paste_what_they_do_not_cover) {
  images::Picture drawn{.width = 3, .height = 1, .pixels = {200, 0, 10, 200, 0, 10, 200, 0, 10}};
  const images::Picture original{.width = 3, .height = 1, .pixels = {100, 9, 9, 100, 9, 9, 100, 9, 9}};
  paste_unmasked(drawn, original, {.width = 3, .height = 1, .channels = 1, .pixels = {0, 255, 51}});
  EXPECT_EQ(drawn.pixels, (std::vector<uint8_t>{100, 9, 9, 200, 0, 10, 120, 7, 9}));
  std::vector<float> x = {1, 2, 3, 4};
  keep_unmasked(x, {10, 20, 30, 40}, {0, 0.5f});
  EXPECT_EQ(x, (std::vector<float>{10, 11, 30, 22}));
  const images::Picture gray = to_gray({.width = 2, .height = 1, .pixels = {255, 255, 255, 255, 0, 0}});
  EXPECT_EQ(gray.pixels, (std::vector<uint8_t>{255, 76}));
}

// torch.nn.functional.interpolate(torch.arange(6.).reshape(1, 1, 2, 3), (3, 4), mode="bilinear")
TEST(Latents, are_resized_as_pytorch_does) {
  const std::vector<float> expected = {0, 0.625f, 1.375f, 2, 1.5f, 2.125f, 2.875f, 3.5f, 3, 3.625f, 4.375f, 5};
  const std::vector<float> actual = resize_bilinear({0, 1, 2, 3, 4, 5}, {2, 3}, {3, 4});
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
}

TEST(BatchNoise, is_one_stream_or_one_of_each_seed) {
  const auto numbers = [](uint64_t seed, size_t count) {
    return make_noise_source(NoiseKind::kTorch, seed)->normal(count);
  };
  const std::vector<float> stream = numbers(3, 60);
  for (size_t i = 0; i < 3; ++i) {
    BatchNoise one({.seed = 3, .pictures = 3, .one_stream = true, .first = i});
    EXPECT_EQ(one.normal(20), std::vector<float>(stream.begin() + 20 * static_cast<int>(i),
                                                 stream.begin() + 20 * static_cast<int>(i + 1)));
    BatchNoise own({.seed = 3, .pictures = 3, .first = i});
    EXPECT_EQ(own.normal(20), numbers(3 + i, 20));
  }
  BatchNoise all({.seed = 3, .pictures = 3, .one_stream = true, .count = 3});
  EXPECT_EQ(all.normal(60), stream);
  BatchNoise each({.seed = 3, .pictures = 2, .count = 2});
  const std::vector<float> both = each.normal_of_each(16);
  EXPECT_EQ(std::vector<float>(both.begin(), both.begin() + 16), numbers(3, 16));
  EXPECT_EQ(std::vector<float>(both.begin() + 16, both.end()), numbers(4, 16));
}

}  // namespace
}  // namespace gabbro::pictures
