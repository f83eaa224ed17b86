// Convolutions (cross-correlations, as everywhere in the field) of images, and the columns that they are products of.
#include <algorithm>
#include <optional>

#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/rules.h"
#include "src/ops/window.h"

namespace gabbro {
namespace {

Tensor full(const Tensor& like, const Shape& shape, double value) {
  return broadcast_to(scalar(like.device(), value), shape);
}

Shape with_length(const Tensor& x, int axis, int64_t length) {
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths[static_cast<size_t>(axis)] = length;
  return Shape(lengths);
}

// x with stride - 1 zeros between any two elements along an axis.
Tensor spread(const Tensor& x, int axis, int64_t stride) {
  const int64_t length = x.shape()[axis];
  if (stride == 1) return x;
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths.insert(lengths.begin() + axis + 1, 1);
  const Tensor column = reshape(x, Shape(lengths));
  lengths[static_cast<size_t>(axis) + 1] = stride - 1;
  const Tensor wide = concat({column, full(x, Shape(lengths), 0)}, axis + 1);
  return slice(reshape(wide, with_length(x, axis, length * stride)), axis, 0, (length - 1) * stride + 1);
}

// x with more elements before and behind an axis; negative numbers take elements away.
Tensor padded(Tensor x, int axis, int64_t before, int64_t behind, double value) {
  if (before < 0) x = slice(x, axis, -before, x.shape()[axis] + before);
  if (behind < 0) x = slice(x, axis, 0, x.shape()[axis] + behind);
  std::vector<Tensor> parts{x};
  if (before > 0) parts.insert(parts.begin(), full(x, with_length(x, axis, before), value));
  if (behind > 0) parts.push_back(full(x, with_length(x, axis, behind), value));
  return parts.size() == 1 ? x : concat(parts, axis);
}

// [C, O / g, kernel...] to [O, C / g, kernel...], with the taps in the opposite order.
Tensor transposed_weights(const Tensor& weight, int64_t groups) {
  const Shape& s = weight.shape();
  const int64_t taps = s[2] * s[3] * s[4];
  const Tensor by_tap = permute(reshape(weight, Shape{s[0], s[1], taps}), {2, 0, 1});  // [taps, C, O/g]
  const Tensor opposite = gather(by_tap, iota(weight.device(), taps, DType::i32, static_cast<double>(taps - 1), -1));
  const Tensor grouped = reshape(opposite, Shape{taps, groups, s[0] / groups, s[1]});
  return reshape(permute(grouped, {1, 3, 2, 0}), Shape{groups * s[1], s[0] / groups, s[2], s[3], s[4]});
}

// The convolution's inputs in f32.
std::vector<Tensor> all_in_f32(const Args& a) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : a.inputs) inputs.push_back(in_f32(input));
  return inputs;
}

// Bytes of columns, and of gradients by image, that are made at a time.
constexpr int64_t kMostColumnBytes = int64_t{128} << 20;

// Weight gradient of a convolution by GEMMs: for each image the product of dy and its columns, summed in f32 over the
// images of a chunk, then over the chunks. None if one image takes too much memory.
std::optional<Tensor> weight_gradient_of_columns(const Tensor& x, const Tensor& dy, const WindowAxes& w,
                                                 const Shape& shape) {
  const int64_t images = x.shape()[0], channels = dy.shape()[1], outputs = w.out[0] * w.out[1] * w.out[2];
  const int64_t depth = channels == 0 ? 0 : shape.elements() / channels;
  const int64_t image_bytes = static_cast<int64_t>(dtype_bytes(x.dtype(), 1)) * depth * std::max(outputs, channels);
  if (depth == 0 || image_bytes > kMostColumnBytes) return std::nullopt;
  Attributes attributes = window_attributes(w);
  attributes.set("value", 0.0);
  const int64_t chunk = image_bytes == 0 ? images : std::min(images, kMostColumnBytes / image_bytes);
  Tensor gradient;  // [O, depth], f32
  for (int64_t first = 0; first < images; first += chunk) {
    const int64_t count = std::min(chunk, images - first);
    const Tensor columns = record(kIm2col, {slice(x, 0, first, count)}, attributes);  // [count, depth, outputs]
    const Tensor rows = reshape(slice(dy, 0, first, count), Shape{count, channels, outputs});
    const Tensor partial = sum(in_f32(matmul(rows, permute(columns, {0, 2, 1}))), 0);
    gradient = gradient.defined() ? gradient + partial : partial;
  }
  return reshape(cast(gradient, x.dtype()), shape);
}

// Weight gradient of a convolution of x [N, C, in...] to y [N, O, out...], as a convolution of x with dy as weights, in
// which images and channels, and the window's stride and dilation, are exchanged.
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const WindowAxes& w, int64_t groups) {
  const Shape &xs = x.shape(), &ys = dy.shape();
  const int64_t images = xs[0], channels = xs[1] / groups;
  const Shape shape{ys[1], channels, w.kernel[0], w.kernel[1], w.kernel[2]};
  if (images == 0) return filled_like(x, shape, 0);
  if (groups == 1) {
    if (const auto gradient = weight_gradient_of_columns(x, dy, w, shape)) return *gradient;
  }
  const Tensor grouped = permute(reshape(x, Shape{images, groups, channels, xs[2], xs[3], xs[4]}), {2, 1, 0, 3, 4, 5});
  const Tensor input = reshape(grouped, Shape{channels, groups * images, xs[2], xs[3], xs[4]});
  WindowAxes transposed{.kernel = w.out, .stride = w.dilation, .padding = w.padding, .dilation = w.stride};
  set_outputs("conv", input, xs, transposed);
  Attributes attributes = window_attributes(transposed);
  attributes.set("groups", groups);
  Tensor y = record(kConv, {input, permute(dy, {1, 0, 2, 3, 4})}, attributes);  // [C / groups, O, kernel or more...]
  for (size_t i = 0; i < 3; ++i)
    if (transposed.out[i] != w.kernel[i]) y = slice(y, static_cast<int64_t>(i) + 2, 0, w.kernel[i]);
  return permute(y, {1, 0, 2, 3, 4});
}

// Gradients of both convolutions: `back` is the other one.
Gradients of_conv(const GradientArgs& a, const Op& back, bool transposed) {
  const Tensor& dy = a.gradients[0];
  Gradients gradients{
      record(back, {dy, a[1]}, a.attributes),
      record(kConvWeightGradient, transposed ? std::vector{dy, a[0]} : std::vector{a[0], dy}, a.attributes)};
  if (a.size() == 3) {
    const int64_t channels = a[2].shape()[0];
    gradients.push_back(reshape(sum_to(in_f32(dy), Shape{channels, 1, 1, 1}), a[2].shape()));
  }
  return gradients;
}

std::vector<TensorSpec> planes(const Tensor& x, int64_t channels, const std::array<int64_t, 3>& lengths) {
  return result(Shape{x.shape()[0], channels, lengths[0], lengths[1], lengths[2]}, x.dtype());
}

}  // namespace

// x [N, C, D, H, W] to [N, C · taps, outputs].
const Op kIm2col = {
    .name = "im2col",
    .infer =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], outputs = w.out[0] * w.out[1] * w.out[2];
          return result(Shape{a[0].shape()[0], a[0].shape()[1] * taps, outputs}, a[0].dtype());
        },
    // The padded x, from which each tap takes a slice in steps of the stride.
    .compose =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          const int64_t images = a[0].shape()[0], channels = a[0].shape()[1];
          Tensor x = in_f32(a[0]);
          for (size_t i = 0; i < 3; ++i)
            x = padded(x, static_cast<int>(i) + 2, w.padding[i], w.padding[i], a.attributes.real("value"));
          std::vector<Tensor> columns;
          for (int64_t d = 0; d < w.kernel[0]; ++d) {
            for (int64_t h = 0; h < w.kernel[1]; ++h) {
              for (int64_t v = 0; v < w.kernel[2]; ++v) {
                const int64_t tap[] = {d, h, v};
                Tensor seen = x;
                for (size_t i = 0; i < 3; ++i)
                  seen = slice(seen, static_cast<int64_t>(i) + 2, tap[i] * w.dilation[i], w.out[i], w.stride[i]);
                columns.push_back(reshape(seen, Shape{images, channels, 1, w.out[0] * w.out[1] * w.out[2]}));
              }
            }
          }
          const Tensor all = concat(columns, 2);  // [N, C, taps, outputs]
          return std::vector{
              cast(reshape(all, Shape{images, channels * std::ssize(columns), all.shape()[3]}), a[0].dtype())};
        },
    // Back to the image by a transposed convolution, in which each tap has a separate channel.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const WindowAxes w = window_of(a.attributes);
      const int64_t images = a[0].shape()[0], channels = a[0].shape()[1];
      const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
      const Tensor tap = iota(a[0].device(), taps, DType::i32);
      const Tensor own = cast(equal(reshape(tap, Shape{taps, 1}), tap), a[0].dtype());  // [taps, taps]
      const Tensor weight = reshape(broadcast_to(own, Shape{channels, taps, taps}),
                                    Shape{channels * taps, 1, w.kernel[0], w.kernel[1], w.kernel[2]});
      const Tensor dy = reshape(a.gradients[0], Shape{images, channels * taps, w.out[0], w.out[1], w.out[2]});
      Attributes attributes = window_attributes(w);
      attributes.set("groups", channels);
      return {record(kConvTranspose, {dy, weight}, attributes)};
    },
};

// x [N, C, D, H, W], weight [O, C / groups, kernel...], bias [O]?: a product of the weights and the columns.
const Op kConv = {
    .name = "conv",
    .infer = [](const Args& a) { return planes(a[0], a[1].shape()[0], window_of(a.attributes).out); },
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype())) return std::vector{cast(record(kConv, all_in_f32(a), a.attributes), a[0].dtype())};
          const WindowAxes w = window_of(a.attributes);
          Attributes attributes = window_attributes(w);
          attributes.set("value", 0.0);
          const int64_t groups = a.attributes.integer("groups"), outputs = w.out[0] * w.out[1] * w.out[2];
          const int64_t images = a[0].shape()[0], channels = a[1].shape()[0];
          const int64_t depth = a[1].shape()[1] * w.kernel[0] * w.kernel[1] * w.kernel[2];
          const Tensor columns = reshape(record(kIm2col, {a[0]}, attributes), Shape{images, groups, depth, outputs});
          const Tensor weight = reshape(a[1], Shape{groups, channels / groups, depth});
          const Tensor y = reshape(matmul(weight, columns), Shape{images, channels, w.out[0], w.out[1], w.out[2]});
          return std::vector{a.size() == 2 ? y : y + reshape(a[2], Shape{channels, 1, 1, 1})};
        },
    .gradient = [](const GradientArgs& a) { return of_conv(a, kConvTranspose, false); },
};

// x [N, C, out...], weight [C, O / groups, kernel...], bias [O]? to [N, O, in...]: a convolution of x, with zeros
// between its elements, by the weights in opposite order.
const Op kConvTranspose = {
    .name = "conv_transpose",
    .infer =
        [](const Args& a) {
          return planes(a[0], a[1].shape()[1] * a.attributes.integer("groups"), window_of(a.attributes).in);
        },
    .compose =
        [](const Args& a) {
          if (is_half(a[0].dtype()))
            return std::vector{cast(record(kConvTranspose, all_in_f32(a), a.attributes), a[0].dtype())};
          std::vector<Tensor> inputs(a.inputs.begin(), a.inputs.end());
          const WindowAxes w = window_of(a.attributes);
          const int64_t groups = a.attributes.integer("groups");
          WindowAxes plain{.kernel = w.kernel, .dilation = w.dilation};
          for (size_t i = 0; i < 3; ++i) {
            const int axis = static_cast<int>(i) + 2;
            inputs[0] = spread(inputs[0], axis, w.stride[i]);
            const int64_t before = w.dilation[i] * (w.kernel[i] - 1) - w.padding[i];
            const int64_t behind = w.in[i] + w.padding[i] - inputs[0].shape()[axis];
            inputs[0] = padded(inputs[0], axis, before, behind, 0);
          }
          inputs[1] = transposed_weights(inputs[1], groups);
          set_outputs("conv_transpose", inputs[0], inputs[0].shape(), plain);
          Attributes attributes = window_attributes(plain);
          attributes.set("groups", groups);
          return std::vector{record(kConv, inputs, attributes)};
        },
    .gradient = [](const GradientArgs& a) { return of_conv(a, kConv, true); },
};

// x [N, C, in...], dy [N, O, out...] to [O, C / groups, kernel...]: what the weights of the conv of x get from dy.
const Op kConvWeightGradient = {
    .name = "conv_weight_gradient",
    .infer =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          const int64_t channels = a[0].shape()[1] / a.attributes.integer("groups");
          return result(Shape{a[1].shape()[1], channels, w.kernel[0], w.kernel[1], w.kernel[2]}, a[0].dtype());
        },
    .compose =
        [](const Args& a) {
          return std::vector{weight_gradient(a[0], a[1], window_of(a.attributes), a.attributes.integer("groups"))};
        },
};

namespace {

// A call of a convolution, for its checks.
struct ConvCall {
  const char* op;
  const Tensor& x;
  const Tensor& weight;
  const Tensor& bias;
  const ConvOptions& options;
  int axes;  // of the image: 1 to 3
  bool transposed = false;
};

// x, weight and bias as the kernels take them, and the window's kernel, stride, padding and dilation.
std::vector<Tensor> conv_inputs(const ConvCall& call, WindowAxes& w) {
  const char* const op = call.op;
  const ConvOptions& o = call.options;
  const int axes = call.axes;
  const Tensor x = for_product(call.x), weight = for_product(call.weight);
  require_dtype(op, x, kReal);
  require_dtype(op, weight, kReal);
  require_rank(op, x, axes + 2);
  require_rank(op, weight, axes + 2);
  const Shape &xs = x.shape(), &ws = weight.shape();
  const auto refuse = [&] {
    return bad_input("[{}] weight {} {} does not fit x {} {} in {} groups", op, dtype_name(weight.dtype()),
                     ws.to_string(), dtype_name(x.dtype()), xs.to_string(), o.groups);
  };
  if (weight.dtype() != x.dtype() || o.groups < 1 || ws[0] % o.groups != 0) throw refuse();
  if (call.transposed ? ws[0] != xs[1] : ws[1] * o.groups != xs[1]) throw refuse();
  set_axes(op, "stride", o.stride, axes, 1, w.stride);
  set_axes(op, "padding", o.padding, axes, 0, w.padding);
  set_axes(op, "dilation", o.dilation, axes, 1, w.dilation);
  std::vector<Tensor> inputs{with_three_axes(x, axes), with_three_axes(weight, axes)};
  for (size_t i = 0; i < 3; ++i) w.kernel[i] = inputs[1].shape()[static_cast<int>(i) + 2];
  if (w.kernel[0] * w.kernel[1] * w.kernel[2] == 0 || ws[1] == 0) throw refuse();
  if (!call.bias.defined()) return inputs;
  require_dtype(op, call.bias, {DType::f32, x.dtype(), call.weight.dtype()});
  const int64_t channels = call.transposed ? ws[1] * o.groups : ws[0];
  if (!(call.bias.shape() == Shape{channels})) {
    throw bad_input("[{}] bias {} does not match weight {}", op, call.bias.shape().to_string(), ws.to_string());
  }
  inputs.push_back(in_f32(call.bias));
  return inputs;
}

Tensor conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
            int axes) {
  WindowAxes w;
  const std::vector<Tensor> inputs =
      conv_inputs({.op = op, .x = x, .weight = weight, .bias = bias, .options = options, .axes = axes}, w);
  set_outputs(op, inputs[0], x.shape(), w);
  Attributes attributes = window_attributes(w);
  attributes.set("groups", options.groups);
  return with_axes(record(kConv, inputs, attributes), axes);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv1d", x, weight, bias, options, 1);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv2d", x, weight, bias, options, 2);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv3d", x, weight, bias, options, 3);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        const std::vector<int64_t>& output_padding) {
  constexpr const char* kName = "conv_transpose2d";
  WindowAxes w;
  const std::vector<Tensor> inputs = conv_inputs(
      {.op = kName, .x = x, .weight = weight, .bias = bias, .options = options, .axes = 2, .transposed = true}, w);
  std::array<int64_t, 3> more{};
  set_axes(kName, "output padding", output_padding, 2, 0, more);
  for (size_t i = 0; i < 3; ++i) {
    w.out[i] = inputs[0].shape()[static_cast<int>(i) + 2];
    if (more[i] >= std::max(w.stride[i], w.dilation[i]) && more[i] > 0) {
      throw bad_input("[{}] an output padding of {} is not less than the stride {} or the dilation {}", kName, more[i],
                      w.stride[i], w.dilation[i]);
    }
    w.in[i] = (w.out[i] - 1) * w.stride[i] - 2 * w.padding[i] + w.dilation[i] * (w.kernel[i] - 1) + more[i] + 1;
    if (w.in[i] < 1) throw bad_input("[{}] nothing is left of x {}", kName, x.shape().to_string());
  }
  Attributes attributes = window_attributes(w);
  attributes.set("groups", options.groups);
  return with_axes(record(kConvTranspose, inputs, attributes), 2);
}

Tensor im2col(const Tensor& x, const std::vector<int64_t>& kernel, const ConvOptions& options, double value) {
  require_dtype("im2col", x, kReal);
  const int axes = x.shape().rank() - 2;
  if (axes < 1 || axes > 3) throw bad_input("[im2col] wants x [N, C, ...], not shape {}", x.shape().to_string());
  WindowAxes w;
  set_axes("im2col", "kernel", kernel, axes, 1, w.kernel);
  set_axes("im2col", "stride", options.stride, axes, 1, w.stride);
  set_axes("im2col", "padding", options.padding, axes, 0, w.padding);
  set_axes("im2col", "dilation", options.dilation, axes, 1, w.dilation);
  const Tensor image = with_three_axes(x, axes);
  set_outputs("im2col", image, x.shape(), w);
  Attributes attributes = window_attributes(w);
  attributes.set("value", value);
  return record(kIm2col, {image}, attributes);
}

}  // namespace gabbro
