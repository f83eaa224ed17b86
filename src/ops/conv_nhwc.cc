// Convolution of images whose channels are last, as kernels on matrix cores want them, with what a residual network
// adds to its result.
#include "src/ops/autocast.h"
#include "src/ops/op_table.h"
#include "src/ops/rules.h"
#include "src/ops/window.h"

namespace gabbro {
namespace {

constexpr const char* kNhwcName = "conv2d_nhwc";

// [N, H, W, C] as [N, C, 1, H, W], and back.
Tensor channels_first(const Tensor& x) {
  const Shape& s = x.shape();
  return reshape(permute(x, {0, 3, 1, 2}), Shape{s[0], s[3], 1, s[1], s[2]});
}
Tensor channels_last(const Tensor& x) {
  const Shape& s = x.shape();
  return permute(reshape(x, Shape{s[0], s[1], s[3], s[4]}), {0, 2, 3, 1});
}

// Each pixel four times: [N, H, W, C] to [N, 2 H, 2 W, C].
Tensor doubled(const Tensor& x) {
  const Shape& s = x.shape();
  const Tensor pixels = reshape(x, Shape{s[0], s[1], 1, s[2], 1, s[3]});
  return reshape(broadcast_to(pixels, Shape{s[0], s[1], 2, s[2], 2, s[3]}), Shape{s[0], 2 * s[1], 2 * s[2], s[3]});
}

void require_shape(const char* name, const Tensor& given, const Tensor& x, const Shape& expected) {
  if (given.dtype() != x.dtype() || !(given.shape() == expected)) {
    throw bad_input("[{}] {} is {} {}, not {} {}", kNhwcName, name, dtype_name(given.dtype()),
                    given.shape().to_string(), dtype_name(x.dtype()), expected.to_string());
  }
}

}  // namespace

// x [N, H, W, C], weight [O, kernel..., C], then bias [O], shift [N, O] and residual [N, out..., O] if the attributes
// name them. The sum is rounded once. The attribute `doubled`: of x at twice its sides.
const Op kConvNhwc = {
    .name = "conv_nhwc",
    .infer =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          return result(Shape{a[0].shape()[0], w.out[1], w.out[2], a[1].shape()[0]}, a[0].dtype());
        },
    .compose =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          Attributes attributes = window_attributes(w);
          attributes.set("groups", int64_t{1});
          size_t next = 2;
          const Tensor x = a.attributes.integer("doubled") != 0 ? doubled(a[0]) : a[0];
          std::vector<Tensor> inputs{channels_first(in_f32(x)), channels_first(in_f32(a[1]))};
          if (a.attributes.integer("bias") != 0) inputs.push_back(a[next++]);
          Tensor y = channels_last(record(kConv, inputs, attributes));
          const Shape& s = y.shape();
          if (a.attributes.integer("shift") != 0) y = y + reshape(in_f32(a[next++]), Shape{s[0], 1, 1, s[3]});
          if (a.attributes.integer("residual") != 0) y = y + in_f32(a[next]);
          return std::vector{cast(y, a[0].dtype())};
        },
};

Tensor conv2d_nhwc(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvNhwcOptions& options) {
  require_dtype(kNhwcName, x, kReal);
  require_rank(kNhwcName, x, 4);
  require_rank(kNhwcName, weight, 4);
  const Shape &xs = x.shape(), &ws = weight.shape();
  if (weight.dtype() != x.dtype() || ws[3] != xs[3] || ws.elements() == 0) {
    throw bad_input("[{}] weight {} {} does not fit x {} {}", kNhwcName, dtype_name(weight.dtype()), ws.to_string(),
                    dtype_name(x.dtype()), xs.to_string());
  }
  WindowAxes w{.kernel = {1, ws[1], ws[2]}};
  set_axes(kNhwcName, "stride", options.stride, 2, 1, w.stride);
  set_axes(kNhwcName, "padding", options.padding, 2, 0, w.padding);
  set_axes(kNhwcName, "dilation", options.dilation, 2, 1, w.dilation);
  const Tensor seen = options.doubled ? doubled(x) : x;
  set_outputs(kNhwcName, reshape(seen, Shape{xs[0], xs[3], 1, seen.shape()[1], seen.shape()[2]}), seen.shape(), w);
  std::vector<Tensor> inputs{x, weight};
  Attributes attributes = window_attributes(w);
  attributes.set("doubled", int64_t{options.doubled});
  const auto add = [&](const char* name, const Tensor& given) {
    attributes.set(name, int64_t{given.defined()});
    if (given.defined()) inputs.push_back(given);
  };
  if (bias.defined()) {
    require_dtype(kNhwcName, bias, {DType::f32, x.dtype()});
    if (!(bias.shape() == Shape{ws[0]}))
      throw bad_input("[{}] bias {} does not match weight {}", kNhwcName, bias.shape().to_string(), ws.to_string());
    add("bias", in_f32(bias));
  } else {
    add("bias", bias);
  }
  if (options.shift.defined()) require_shape("shift", options.shift, x, Shape{xs[0], ws[0]});
  if (options.residual.defined())
    require_shape("residual", options.residual, x, Shape{xs[0], w.out[1], w.out[2], ws[0]});
  add("shift", options.shift);
  add("residual", options.residual);
  return record(kConvNhwc, inputs, attributes);
}

}  // namespace gabbro
