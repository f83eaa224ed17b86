#include "backends/gpu/conv_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gabbro::gpu {
namespace {

using testing::ElementsAre;

std::vector<int> first(const int* values, int count) { return {values, values + count}; }

// 2 images of 3 groups of 4 channels, 9x10, to 3 groups of 5 channels, by 3x2 taps.
api::ConvShape image() {
  return {.dtype = DType::f32,
          .images = 2,
          .groups = 3,
          .in_channels = 4,
          .out_channels = 5,
          .in = {1, 9, 10},
          .kernel = {1, 3, 2},
          .out = {1, 4, 9},
          .stride = {1, 2, 1},
          .padding = {0, 1, 0},
          .dilation = {1, 1, 1}};
}

TEST(ConvDimensions, ImagesHaveFourAxes) {
  const auto d = dimensions_of(image());
  ASSERT_TRUE(d);
  EXPECT_EQ(d->rank, 4);
  EXPECT_EQ(d->spatial, 2);
  EXPECT_EQ(d->groups, 3);
  EXPECT_THAT(first(d->x, 4), ElementsAre(2, 12, 9, 10));
  EXPECT_THAT(first(d->x_strides, 4), ElementsAre(1080, 90, 10, 1));
  EXPECT_THAT(first(d->w, 4), ElementsAre(15, 4, 3, 2));
  EXPECT_THAT(first(d->y, 4), ElementsAre(2, 15, 4, 9));
  EXPECT_THAT(first(d->y_strides, 4), ElementsAre(540, 36, 9, 1));
  EXPECT_THAT(first(d->stride, 2), ElementsAre(2, 1));
  EXPECT_THAT(first(d->padding, 2), ElementsAre(1, 0));
}

TEST(ConvDimensions, VolumesHaveFive) {
  api::ConvShape volume = image();
  volume.in[0] = 6;
  volume.out[0] = 6;
  volume.dilation[0] = 2;
  const auto d = dimensions_of(volume);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->rank, 5);
  EXPECT_THAT(first(d->x, 5), ElementsAre(2, 12, 6, 9, 10));
  EXPECT_THAT(first(d->x_strides, 5), ElementsAre(6480, 540, 90, 10, 1));
  EXPECT_THAT(first(d->dilation, 3), ElementsAre(2, 1, 1));
}

TEST(ConvDimensions, WhatTheLibrariesCannotCountIsRefused) {
  api::ConvShape large = image();
  large.images = int64_t{1} << 32;
  EXPECT_FALSE(dimensions_of(large));
  large = image();
  large.images = int64_t{1} << 21;  // 2³¹ elements and more
  EXPECT_FALSE(dimensions_of(large));
  large = image();
  large.stride[1] = int64_t{1} << 31;
  EXPECT_FALSE(dimensions_of(large));
  api::ConvShape empty = image();
  empty.images = 0;
  EXPECT_FALSE(dimensions_of(empty));
}

}  // namespace
}  // namespace gabbro::gpu
