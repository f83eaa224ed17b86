// Cases of convolutions, pooling and resizing.
#include <fmt/format.h>

#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/window.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

struct WindowCase {
  Shape x;  // [N, C, D, H, W]
  std::array<int64_t, 3> kernel;
  int64_t channels;  // of y
  int64_t groups = 1;
  std::array<int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

WindowAxes window_of_case(const WindowCase& c) {
  WindowAxes w{.kernel = c.kernel, .stride = c.stride, .padding = c.padding, .dilation = c.dilation};
  for (size_t i = 0; i < 3; ++i) {
    w.in[i] = c.x[static_cast<int>(i) + 2];
    w.out[i] = (w.in[i] + 2 * w.padding[i] - (w.kernel[i] - 1) * w.dilation[i] - 1) / w.stride[i] + 1;
  }
  return w;
}

// A sum of `terms` in f32, rounded to the dtype, where a value near the middle of two may fall to either side.
double tolerance(int64_t terms, DType dtype) {
  const double rounding = dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0;
  return 4 * 0x1p-24 * static_cast<double>(terms + 8) + rounding;
}

// One output, few channels, whole and partial tiles of channels and outputs, groups, volumes.
const std::vector<WindowCase>& window_cases_list() {
  static const std::vector<WindowCase> kCases = {
      {.x = {1, 1, 1, 1, 1}, .kernel = {1, 1, 1}, .channels = 1},
      {.x = {2, 3, 1, 9, 17}, .kernel = {1, 3, 3}, .channels = 5, .padding = {0, 1, 1}},
      {.x = {1, 4, 1, 13, 12}, .kernel = {1, 3, 3}, .channels = 16, .stride = {1, 2, 2}, .padding = {0, 1, 1}},
      {.x = {2, 6, 1, 8, 9}, .kernel = {1, 1, 1}, .channels = 65},
      {.x = {1, 34, 1, 11, 7}, .kernel = {1, 2, 3}, .channels = 68, .groups = 2, .dilation = {1, 2, 1}},
      {.x = {1, 8, 1, 7, 33}, .kernel = {1, 3, 3}, .channels = 8, .groups = 8, .padding = {0, 1, 1}},
      {.x = {1, 5, 1, 1, 40}, .kernel = {1, 1, 5}, .channels = 20, .stride = {1, 1, 3}, .padding = {0, 0, 2}},
      {.x = {1, 2, 5, 6, 7}, .kernel = {3, 2, 2}, .channels = 17, .stride = {2, 1, 1}, .padding = {1, 0, 1}},
      {.x = {1, 3, 4, 5, 6}, .kernel = {2, 3, 2}, .channels = 3, .groups = 3, .dilation = {2, 1, 3}},
      // Several bands of an image, and parts of a row; many small images, with some left over.
      {.x = {2, 2, 1, 37, 41}, .kernel = {1, 3, 3}, .channels = 11, .stride = {1, 1, 2}, .padding = {0, 1, 1}},
      {.x = {1, 1, 1, 2, 1100}, .kernel = {1, 1, 4}, .channels = 2, .padding = {0, 0, 2}},
      {.x = {37, 3, 1, 7, 7}, .kernel = {1, 2, 2}, .channels = 9, .stride = {1, 2, 1}, .dilation = {1, 3, 1}},
      {.x = {9, 2, 1, 8, 8}, .kernel = {1, 3, 3}, .channels = 5, .padding = {0, 1, 1}},
      // Panels of channels: the last one partial, rows longer and shorter than eight outputs.
      {.x = {3, 9, 1, 14, 13}, .kernel = {1, 5, 5}, .channels = 31, .padding = {0, 2, 2}},
      {.x = {2, 6, 1, 6, 4},
       .kernel = {1, 3, 3},
       .channels = 92,
       .groups = 2,
       .stride = {1, 2, 2},
       .padding = {0, 1, 1}},
      {.x = {2, 4, 3, 5, 11}, .kernel = {2, 2, 3}, .channels = 16, .padding = {1, 1, 0}, .dilation = {1, 2, 1}},
      // One output a slice, and many slices.
      {.x = {13, 2, 9, 1, 1}, .kernel = {2, 1, 1}, .channels = 3},
  };
  return kCases;
}

// Groups of one channel: planes of odd sizes, rows shorter and longer than vectors and than a copied band, tiles of any
// height and several; strides, dilations and padding larger than the window; several channels for each.
const std::vector<WindowCase>& depthwise_cases_list() {
  static const std::vector<WindowCase> kCases = {
      {.x = {0, 3, 1, 5, 5}, .kernel = {1, 3, 3}, .channels = 3},
      {.x = {1, 1, 1, 1, 1}, .kernel = {1, 3, 3}, .channels = 1, .padding = {0, 1, 1}},
      {.x = {3, 2, 1, 7, 7}, .kernel = {1, 3, 3}, .channels = 2, .padding = {0, 1, 1}},
      {.x = {2, 3, 1, 14, 15}, .kernel = {1, 5, 5}, .channels = 3, .padding = {0, 2, 2}},
      {.x = {1, 2, 1, 17, 16}, .kernel = {1, 2, 4}, .channels = 2},
      {.x = {2, 5, 1, 19, 17}, .kernel = {1, 4, 2}, .channels = 10, .padding = {0, 1, 0}},
      {.x = {1, 3, 1, 9, 33}, .kernel = {1, 7, 7}, .channels = 3, .padding = {0, 3, 3}},
      {.x = {1, 2, 1, 31, 35}, .kernel = {1, 6, 1}, .channels = 6, .padding = {0, 5, 0}},
      {.x = {1, 2, 1, 23, 29}, .kernel = {1, 1, 6}, .channels = 16, .padding = {0, 0, 20}},
      {.x = {1, 3, 1, 3, 145}, .kernel = {1, 3, 3}, .channels = 3, .padding = {0, 1, 1}},
      {.x = {1, 1, 1, 65, 130}, .kernel = {1, 11, 9}, .channels = 1, .padding = {0, 5, 4}},
      {.x = {1, 2, 1, 40, 30}, .kernel = {1, 17, 15}, .channels = 2, .padding = {0, 8, 7}},
      {.x = {2, 3, 1, 33, 31}, .kernel = {1, 3, 3}, .channels = 3, .stride = {1, 2, 2}, .padding = {0, 1, 1}},
      {.x = {1, 4, 1, 14, 14}, .kernel = {1, 5, 5}, .channels = 8, .stride = {1, 2, 2}, .padding = {0, 2, 2}},
      {.x = {1, 2, 1, 9, 300}, .kernel = {1, 3, 2}, .channels = 2, .stride = {1, 1, 2}, .padding = {0, 0, 40}},
      {.x = {1, 3, 1, 12, 37}, .kernel = {1, 1, 1}, .channels = 3, .stride = {1, 2, 2}, .padding = {0, 3, 2}},
      {.x = {1, 2, 1, 20, 43}, .kernel = {1, 4, 5}, .channels = 4, .stride = {1, 3, 3}, .padding = {0, 2, 2}},
      {.x = {1, 2, 1, 16, 16}, .kernel = {1, 2, 3}, .channels = 2, .stride = {1, 4, 1}},
      {.x = {1, 2, 1, 21, 22}, .kernel = {1, 3, 3}, .channels = 2, .padding = {0, 2, 2}, .dilation = {1, 2, 2}},
      {.x = {1, 2, 1, 37, 45}, .kernel = {1, 5, 4}, .channels = 2, .stride = {1, 2, 2}, .dilation = {1, 3, 4}},
      {.x = {1, 2, 1, 30, 28}, .kernel = {1, 3, 3}, .channels = 2, .stride = {1, 4, 4}, .dilation = {1, 6, 3}},
      {.x = {1, 2, 5, 9, 18}, .kernel = {3, 3, 3}, .channels = 2, .stride = {2, 1, 2}, .padding = {1, 1, 1}},
      {.x = {2, 3, 1, 1, 40}, .kernel = {1, 1, 4}, .channels = 3, .padding = {0, 0, 3}},
      {.x = {1, 2, 1, 1, 700}, .kernel = {1, 1, 31}, .channels = 2, .padding = {0, 0, 15}},
      {.x = {1, 2, 1, 2, 500}, .kernel = {1, 1, 140}, .channels = 2},
  };
  return kCases;
}

std::string name_of_case(const WindowCase& c, DType dtype) {
  return fmt::format("{} {} to {} of {} in {}", dtype_name(dtype), c.x.to_string(), c.channels,
                     c.kernel[0] * c.kernel[1] * c.kernel[2], c.groups);
}

Attributes grouped_attributes(const WindowCase& c) {
  Attributes attributes = window_attributes(window_of_case(c));
  attributes.set("groups", c.groups);
  return attributes;
}

OpCase conv_case(const WindowCase& c, DType dtype, bool has_bias) {
  const Shape weight{c.channels, c.x[1] / c.groups, c.kernel[0], c.kernel[1], c.kernel[2]};
  return {.name = "conv " + name_of_case(c, dtype),
          .op = &kConv,
          .inputs =
              [=](Maker& m) {
                std::vector<Tensor> all{cast(m.normal(c.x), dtype), cast(m.normal(weight), dtype)};
                if (has_bias) all.push_back(m.normal(Shape{c.channels}));
                return all;
              },
          .attributes = grouped_attributes(c),
          .tolerance = tolerance(weight.elements() / c.channels, dtype)};
}

void depthwise_cases(std::vector<OpCase>& cases) {
  for (WindowCase c : depthwise_cases_list()) {
    c.groups = c.x[1];
    cases.push_back(conv_case(c, DType::f32, cases.size() % 2 == 0));
  }
}

void conv_cases(std::vector<OpCase>& cases, DType dtype) {
  for (const WindowCase& c : window_cases_list()) {
    const WindowAxes w = window_of_case(c);
    const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    Attributes attributes = grouped_attributes(c);
    const std::string name = name_of_case(c, dtype);
    cases.push_back(conv_case(c, dtype, c.stride[2] == 1));
    // The window slides over y here: x is what the convolution above gives.
    cases.push_back({.name = "conv_transpose " + name,
                     .op = &kConvTranspose,
                     .inputs =
                         [=](Maker& m) {
                           const Shape x{c.x[0], c.channels, w.out[0], w.out[1], w.out[2]};
                           const Shape weight{c.channels, c.x[1] / c.groups, w.kernel[0], w.kernel[1], w.kernel[2]};
                           std::vector<Tensor> all{cast(m.normal(x), dtype), cast(m.normal(weight), dtype)};
                           if (c.stride[2] == 1) all.push_back(m.normal(Shape{c.x[1]}));
                           return all;
                         },
                     .attributes = attributes,
                     .tolerance = tolerance(c.channels / c.groups * taps, dtype)});
    cases.push_back({.name = "conv_weight_gradient " + name,
                     .op = &kConvWeightGradient,
                     .inputs =
                         [=](Maker& m) {
                           const Shape dy{c.x[0], c.channels, w.out[0], w.out[1], w.out[2]};
                           return std::vector{cast(m.normal(c.x), dtype), cast(m.normal(dy), dtype)};
                         },
                     .attributes = attributes,
                     .tolerance = tolerance(c.x[0] * w.out[0] * w.out[1] * w.out[2], dtype),
                     .lowered = true});
    attributes = window_attributes(w);
    attributes.set("value", -1.5);
    cases.push_back({.name = "im2col " + name,
                     .op = &kIm2col,
                     .inputs = [=](Maker& m) { return std::vector{cast(m.normal(c.x), dtype)}; },
                     .attributes = attributes,
                     .tolerance = 0});
    // Rounded, so that some elements of a window are equal.
    cases.push_back({.name = "max_pool_gradient " + name,
                     .op = &kMaxPoolGradient,
                     .inputs =
                         [=](Maker& m) {
                           const Shape dy{c.x[0], c.x[1], w.out[0], w.out[1], w.out[2]};
                           return std::vector{cast(round(m.normal(c.x, 2)), dtype), cast(m.normal(dy), dtype)};
                         },
                     .attributes = window_attributes(w),
                     .tolerance = tolerance(taps, dtype),
                     .lowered = true});
    for (const int mode : {0, 1, 2}) {
      attributes = window_attributes(w);
      attributes.set("largest", int64_t{mode == 0});
      attributes.set("counts_padding", int64_t{mode == 1});
      cases.push_back({.name = fmt::format("pool {} {}", mode, name),
                       .op = &kPool,
                       .inputs = [=](Maker& m) { return std::vector{cast(m.normal(c.x), dtype)}; },
                       .attributes = attributes,
                       .tolerance = mode == 0 ? 0 : tolerance(taps, dtype)});
    }
  }
}

// Windows over images whose channels are last: whole and partial vectors of channels, several steps of channels,
// partial tiles of pixels and of outputs, a tile with pixels of two images, and few pixels with many channels (splits).
const std::vector<WindowCase>& channels_last_list() {
  static const std::vector<WindowCase> kCases = {
      {.x = {1, 8, 1, 1, 1}, .kernel = {1, 1, 1}, .channels = 1},
      {.x = {2, 8, 1, 9, 7}, .kernel = {1, 3, 3}, .channels = 5, .padding = {0, 1, 1}},
      {.x = {1, 40, 1, 13, 12}, .kernel = {1, 3, 3}, .channels = 16, .stride = {1, 2, 2}, .padding = {0, 1, 1}},
      {.x = {3, 24, 1, 8, 9}, .kernel = {1, 1, 1}, .channels = 130},
      {.x = {1, 72, 1, 20, 19}, .kernel = {1, 3, 2}, .channels = 34, .padding = {0, 2, 1}, .dilation = {1, 2, 1}},
      {.x = {2, 320, 1, 4, 4}, .kernel = {1, 3, 3}, .channels = 72, .padding = {0, 1, 1}},
      {.x = {1, 5, 1, 6, 6}, .kernel = {1, 3, 3}, .channels = 8, .padding = {0, 1, 1}},
      // Tiles of 16 x 16 pixels whose border is shared by all taps: whole and partial ones, of two images, few outputs,
      // several widths of blocks, splits of chunks of channels.
      {.x = {1, 64, 1, 16, 16}, .kernel = {1, 3, 3}, .channels = 3, .padding = {0, 1, 1}},
      {.x = {2, 72, 1, 16, 20}, .kernel = {1, 3, 3}, .channels = 24, .padding = {0, 1, 1}},
      {.x = {1, 136, 1, 14, 16}, .kernel = {1, 3, 3}, .channels = 130, .padding = {0, 1, 1}},
      {.x = {1, 8, 1, 18, 20}, .kernel = {1, 3, 3}, .channels = 152, .padding = {0, 0, 1}},
  };
  return kCases;
}

void channels_last_cases(std::vector<OpCase>& cases, DType dtype) {
  for (const WindowCase& c : channels_last_list()) {
    const WindowAxes w = window_of_case(c);
    for (const int given : {0, 1, 7}) {  // bits: bias, shift, residual
      Attributes attributes = window_attributes(w);
      attributes.set("bias", int64_t{given & 1});
      attributes.set("shift", int64_t{given >> 1 & 1});
      attributes.set("residual", int64_t{given >> 2 & 1});
      const int64_t parts = c.x[3] % 4 == 0 && c.x[4] % 4 == 0 && given == 1 ? 2 : 1;  // of a side of x
      attributes.set("doubled", int64_t{parts == 2});
      cases.push_back({.name = fmt::format("conv_nhwc {} with {}{}", name_of_case(c, dtype), given,
                                           parts == 2 ? " of x at twice its sides" : ""),
                       .op = &kConvNhwc,
                       .inputs =
                           [=](Maker& m) {
                             const Shape weight{c.channels, c.kernel[1], c.kernel[2], c.x[1]};
                             const Shape x{c.x[0], c.x[3] / parts, c.x[4] / parts, c.x[1]};
                             std::vector<Tensor> all{cast(m.normal(x), dtype), cast(m.normal(weight), dtype)};
                             if ((given & 1) != 0) all.push_back(m.normal(Shape{c.channels}));
                             if ((given & 2) != 0) {  // a part of longer rows
                               Tensor rows = cast(m.normal(Shape{c.x[0], c.channels + 3}), dtype);
                               eval(std::span(&rows, 1));
                               all.push_back(slice(rows, 1, 2, c.channels));
                             }
                             if ((given & 4) != 0)
                               all.push_back(cast(m.normal(Shape{c.x[0], w.out[1], w.out[2], c.channels}), dtype));
                             return all;
                           },
                       .attributes = attributes,
                       .tolerance = tolerance(c.x[1] * c.kernel[1] * c.kernel[2], dtype),
                       .lowered = dtype == DType::f32});
    }
  }
}

// Whole vectors and others, groups across vectors, more channels than a block has threads for, several slices of
// places, means far from 0.
void norm_cases(std::vector<OpCase>& cases, DType dtype) {
  for (const auto& [shape, groups] : {std::pair<Shape, int64_t>{{1, 1, 8}, 1},
                                      {{2, 7, 5, 40}, 4},
                                      {{1, 3, 2, 320}, 32},
                                      {{3, 2, 2560}, 32},
                                      {{1, 40, 33, 64}, 2},
                                      {{2, 4, 5, 6}, 3}}) {
    for (const bool with_silu : {false, true}) {
      const Shape channels{shape[shape.rank() - 1]};
      cases.push_back({.name = fmt::format("group_norm_nhwc {} {} of {}{}", dtype_name(dtype), shape.to_string(),
                                           groups, with_silu ? " silu" : ""),
                       .op = &kGroupNormNhwc,
                       .inputs =
                           [=, shape = shape](Maker& m) {
                             const Tensor noise = m.normal(shape, 2), x = noise + scalar(noise.device(), 30);
                             return std::vector{cast(x, dtype), m.normal(channels), m.normal(channels)};
                           },
                       .attributes = {{"groups", groups}, {"epsilon", 1e-3}, {"silu", int64_t{with_silu}}},
                       .tolerance = 40 * tolerance(shape.elements() / shape[0] / groups, dtype),
                       .lowered = dtype == DType::f32 || shape[shape.rank() - 1] == 6});
    }
  }
}

void resize_cases(std::vector<OpCase>& cases, DType dtype) {
  for (const auto& [x, height, width] : {std::tuple<Shape, int64_t, int64_t>{{1, 1, 1, 1}, 1, 1},
                                         {{2, 3, 7, 9}, 3, 4},
                                         {{1, 2, 5, 6}, 13, 17},
                                         {{1, 1, 31, 2}, 1, 300},
                                         {{3, 1, 16, 16}, 32, 8}}) {
    for (const int64_t mode : {0, 1, 2, 3}) {
      cases.push_back(
          {.name = fmt::format("resize {} {} {} to {}x{}", mode, dtype_name(dtype), x.to_string(), height, width),
           .op = mode == 0 ? &kAdaptiveAvgPool2d : &kUpsample2d,
           .inputs = [=, x = x](Maker& m) { return std::vector{cast(m.normal(x), dtype)}; },
           .attributes = {{"out_h", height},
                          {"out_w", width},
                          {"mode", std::min<int64_t>(mode, 2)},
                          {"aligned_corners", int64_t{mode == 3}},
                          {"step_h", 0.0},
                          {"step_w", 0.0}},
           // The error of an interpolated position adds to that of the element.
           .tolerance = mode == 1 ? 0 : tolerance(4 * (x[2] + x[3]), dtype)});
    }
  }
}

}  // namespace

void add_window_cases(std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    conv_cases(cases, dtype);
    resize_cases(cases, dtype);
    channels_last_cases(cases, dtype);
    norm_cases(cases, dtype);
  }
  depthwise_cases(cases);
}

}  // namespace gabbro::conformance
