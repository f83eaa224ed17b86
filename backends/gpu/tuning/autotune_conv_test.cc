// Convolutions with several candidates: libraries, products and the backend's kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/gpu/tuning/autotune_fixture.h"

namespace gabbro::gpu::autotuning {
namespace {

using abi::StatusCode;
using abi::TensorView;
using testing::ElementsAre;
using testing::HasSubstr;

// 2 images of 3 channels, 5x6, to 4 channels by 3x3, with a bias.
struct Convolution {
  static TensorView images(int64_t count, int64_t channels) {
    return {.data = nullptr,
            .shape = {count, channels, 1, 5, 6},
            .strides = {channels * 30, 30, 30, 6, 1},
            .rank = 5,
            .dtype = DType::f32};
  }
  static TensorView filters() {
    return {.data = nullptr, .shape = {4, 3, 1, 3, 3}, .strides = {27, 9, 9, 3, 1}, .rank = 5, .dtype = DType::f32};
  }
  static TensorView bias() { return {.data = nullptr, .shape = {4}, .strides = {1}, .rank = 1, .dtype = DType::f32}; }

  // The kernel's name; the result is put where it is asked for.
  static std::string run(Opened& device, std::vector<float>& result) {
    std::vector<TensorView> in = {images(2, 3), filters(), bias()};
    TensorView out = images(2, 4);
    const auto padding = [](const char* name) {
      return abi::Attribute{.name = name, .kind = abi::AttributeKind::kInteger, .integer = 1};
    };
    const abi::BoundKernel kernel = device.find("conv", in, out, {padding("padding_h"), padding("padding_w")});
    const std::vector<float> values = Product(20).x;
    in[0].data = device.upload(std::vector<float>(values.begin(), values.begin() + 180));
    in[1].data = device.upload(std::vector<float>(values.begin() + 7, values.begin() + 115));
    in[2].data = device.upload(std::vector<float>{1, -2, 3, -4});
    out.data = device.allocate(240 * sizeof(float));
    const abi::Status status = device.execute(kernel, in, out);
    EXPECT_EQ(status.code, StatusCode::kOk) << status.message;
    TensorView flat = matrix(DType::f32, 1, 240);
    flat.data = out.data;
    result = device.download(flat);
    return kernel.implementation;
  }
};

TEST_F(Autotune, ConvolutionsAskLibrariesOnceTheyAreMeasured) {
  std::vector<float> ours, theirs;
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, ours), "conv_direct_f32");
  }
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing,declining,failing,wrong,1", 1);
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv_direct_f32") << "not measured";
    Opened measuring(abi::Tuning::kMeasureAll, file_);
    Convolution::run(measuring, theirs);
    EXPECT_EQ(theirs, ours);
    const abi::MeasuredShape shape = measuring.measured(0);
    EXPECT_THAT(shape.shape, HasSubstr("conv f32, up to 2 of 3 x 1x5x6 to 4, taps 1x3x3, stride 1x1x1, padding 0x1x1"));
    EXPECT_THAT(shape.shape, HasSubstr(", bias, declining library 1.0, failing library 1.0"));
    EXPECT_THAT(names(shape), ElementsAre("direct", "tiled", "failing library", "wrong library", "simulated library"));
    EXPECT_FALSE(shape.candidates[2].fit);
    EXPECT_FALSE(shape.candidates[3].fit);
    EXPECT_TRUE(shape.candidates[4].fit);
  }
  prefer("simulated library");
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv simulated library");
    EXPECT_EQ(theirs, ours);
  }
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing", 1);
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv_direct_f32") << "the library is gone";
  }
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, ConvolutionsAreProductsToo) {
  set("GABBRO_SIM_PRODUCTS", "1");
  Opened device(abi::Tuning::kMeasureAll, file_);
  std::vector<float> result;
  Convolution::run(device, result);
  const abi::MeasuredShape shape = device.measured(0);
  EXPECT_THAT(names(shape), ElementsAre("direct", "tiled", "product simulated library"));
  EXPECT_TRUE(shape.candidates[2].fit);
}

TEST_F(Autotune, LargeConvolutionsAskLibrariesThatAreTrusted) {
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing,declining,1", 1);
  const auto implementation = [&](int64_t side) {
    Opened device(abi::Tuning::kKnown, file_);
    const auto images = [&](int64_t lines, int64_t columns) {
      const int64_t plane = lines * columns;
      return TensorView{.data = nullptr,
                        .shape = {1, 64, 1, lines, columns},
                        .strides = {64 * plane, plane, plane, columns, 1},
                        .rank = 5,
                        .dtype = DType::f32};
    };
    const TensorView filters = {
        .data = nullptr, .shape = {64, 64, 1, 1, 1}, .strides = {64, 1, 1, 1, 1}, .rank = 5, .dtype = DType::f32};
    return std::string(device.find("conv", {images(side, side), filters}, images(side, side), {}).implementation);
  };
  EXPECT_EQ(implementation(128), "conv_tiled_f32");
  ::setenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS", "1", 1);
  EXPECT_EQ(implementation(128), "conv simulated library");
  EXPECT_EQ(implementation(16), "conv_tiled_f32") << "too small to open a library for";
  set("GABBRO_SIM_PRODUCTS", "1");
  EXPECT_EQ(implementation(128), "conv as a product simulated library") << "it has one tap";
  ::unsetenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS");
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, TransposedConvolutionsAskLibrariesThatAreTrusted) {
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "1", 1);
  ::setenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS", "1", 1);
  Opened device(abi::Tuning::kKnown, file_);
  // Ones, so that each result is the number of channels: 64 planes of 128x128, by a filter of one tap.
  constexpr int64_t kPlane = int64_t{128} * 128;
  TensorView x = {.data = nullptr,
                  .shape = {1, 64, 1, 128, 128},
                  .strides = {64 * kPlane, kPlane, kPlane, 128, 1},
                  .rank = 5,
                  .dtype = DType::f32};
  TensorView filters = {
      .data = nullptr, .shape = {64, 64, 1, 1, 1}, .strides = {64, 1, 1, 1, 1}, .rank = 5, .dtype = DType::f32};
  TensorView y = x;
  const abi::BoundKernel kernel = device.find("conv_transpose", {x, filters}, y, {});
  EXPECT_STREQ(kernel.implementation, "conv_transpose simulated library");
  x.data = device.upload(std::vector<float>(64 * kPlane, 1));
  filters.data = device.upload(std::vector<float>(64 * 64, 1));
  y.data = device.allocate(64 * kPlane * sizeof(float));
  ASSERT_EQ(device.execute(kernel, {x, filters}, y).code, StatusCode::kOk);
  TensorView flat = matrix(DType::f32, 1, 64 * kPlane);
  flat.data = y.data;
  EXPECT_EQ(device.download(flat), std::vector<float>(64 * kPlane, 64));
  ::unsetenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS");
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, LibrariesSearchWhereThatIsAskedFor) {
  set("GABBRO_SIM_CONVOLUTIONS", "searching");
  std::vector<float> y;
  for (const bool search : {false, true}) {
    Opened device(abi::Tuning::kKnown, "");
    ASSERT_EQ(device.set({.mode = abi::Tuning::kMeasureAll, .search = search, .file = ""}).code, StatusCode::kOk);
    EXPECT_EQ(device.facts().search, search);
    Convolution::run(device, y);
    EXPECT_EQ(device.measured(0).candidate_count, search ? 3 : 2);
  }
  set("GABBRO_MIOPEN_SEARCH", "1");
  Opened device(abi::Tuning::kMeasureAll, "");
  EXPECT_TRUE(device.facts().search) << "of the environment";
  Convolution::run(device, y);
  EXPECT_EQ(device.measured(0).candidate_count, 3);
}

}  // namespace
}  // namespace gabbro::gpu::autotuning
