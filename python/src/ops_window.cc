// Convolutions, pools, and what else looks at images [N, C, ...] through a window.
#include "python/src/interpolation.h"

namespace gabbro::python {
namespace {

using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using Pool = Tensor (*)(const Tensor&, const PoolOptions&);

void bind_conv(nb::module_& m, const char* name, Conv function, const char* input, const char* shown) {
  m.def(
      name,
      [function](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const Integers& stride,
                 const Integers& padding, const Integers& dilation, int64_t groups) {
        return function(
            x, weight, or_none(bias),
            {.stride = stride.values, .padding = padding.values, .dilation = dilation.values, .groups = groups});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = Integers{{1}},
      nb::arg("padding") = Integers{{0}}, nb::arg("dilation") = Integers{{1}}, nb::arg("groups") = 1,
      fmt::format(R"(Cross-correlation of `x` with `weight`, as torch.nn.functional has it.

Parameters
----------
x : Tensor
    [N, C, {0}], of float32, float16 or bfloat16; computed in float32.
weight : Tensor
    [O, C / groups, kernel...], of the dtype of `x`.
bias : Tensor, optional
    [O], of float32 or the dtype of `x`.
stride, padding, dilation : int or tuple of int
    One number for all spatial axes, or one for each.
groups : int
    A divisor of C and O.

Returns
-------
Tensor
    [N, O, ...]: (in + 2 · padding - dilation · (kernel - 1) - 1) / stride + 1 along an axis, rounded down.

Raises
------
ValueError
    Where shapes, dtypes or options do not fit.

>>> gb.{1}(gb.ones({2}), gb.ones({2}))
{3}
)",
                  std::string_view(name) == "conv1d"   ? "L"
                  : std::string_view(name) == "conv2d" ? "H, W"
                                                       : "D, H, W",
                  name, input, shown)
          .c_str());
}

void bind_pool(nb::module_& m, const char* name, Pool function, const char* input, const char* shown) {
  const bool mean = std::string_view(name).starts_with("avg");
  const std::string doc = fmt::format(
      R"(The {} of each window of `x`, as torch.nn.functional has it.

Parameters
----------
x : Tensor
    [N, C, ...], of float32, float16 or bfloat16; computed in float32.
kernel_size : int or tuple of int
    One number for all spatial axes, or one for each.
stride : int or tuple of int, optional
    Without it, the kernel's size.
padding : int or tuple of int
    At most half of the kernel.
{}

Returns
-------
Tensor
    [N, C, ...]

Raises
------
ValueError
    Where shapes, dtypes or options do not fit.

>>> gb.{}({}, 2)
{}
)",
      mean ? "mean" : "largest element",
      mean ? "ceil_mode : bool\n    False: lengths are rounded down.\ncount_include_pad : bool\n    Divides by all of "
             "the "
             "window's elements, not by those inside of `x`."
           : "dilation : int or tuple of int\nceil_mode : bool\n    False: lengths are rounded down.",
      name, input, shown);
  if (mean) {
    m.def(
        name,
        [function](const Tensor& x, const Integers& kernel, const std::optional<Integers>& stride,
                   const Integers& padding, bool ceil_mode, bool counts) {
          require_floor(ceil_mode);
          return function(x, {.kernel = kernel.values,
                              .stride = stride ? stride->values : std::vector<int64_t>{},
                              .padding = padding.values,
                              .counts_padding = counts});
        },
        nb::arg("x"), nb::arg("kernel_size"), nb::arg("stride") = nb::none(), nb::arg("padding") = Integers{{0}},
        nb::arg("ceil_mode") = false, nb::arg("count_include_pad") = true, doc.c_str());
  } else {
    m.def(
        name,
        [function](const Tensor& x, const Integers& kernel, const std::optional<Integers>& stride,
                   const Integers& padding, const Integers& dilation, bool ceil_mode) {
          require_floor(ceil_mode);
          return function(x, {.kernel = kernel.values,
                              .stride = stride ? stride->values : std::vector<int64_t>{},
                              .padding = padding.values,
                              .dilation = dilation.values});
        },
        nb::arg("x"), nb::arg("kernel_size"), nb::arg("stride") = nb::none(), nb::arg("padding") = Integers{{0}},
        nb::arg("dilation") = Integers{{1}}, nb::arg("ceil_mode") = false, doc.c_str());
  }
}

std::pair<int64_t, int64_t> height_and_width(const char* op, const Integers& size) {
  if (size.values.size() == 1) return {size.values[0], size.values[0]};
  if (size.values.size() == 2) return {size.values[0], size.values[1]};
  throw bad_input("[{}] a size of {} numbers: one or two are wanted", op, size.values.size());
}

}  // namespace

void bind_windows(nb::module_& m) {
  m.def(
      "conv2d_nhwc",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const Integers& stride,
         const Integers& padding, const Integers& dilation, const OptionalTensor& shift,
         const OptionalTensor& residual) {
        return conv2d_nhwc(x, weight, or_none(bias),
                           {.stride = stride.values,
                            .padding = padding.values,
                            .dilation = dilation.values,
                            .shift = or_none(shift),
                            .residual = or_none(residual)});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = Integers{{1}},
      nb::arg("padding") = Integers{{0}}, nb::arg("dilation") = Integers{{1}}, nb::kw_only(),
      nb::arg("shift") = nb::none(), nb::arg("residual") = nb::none(),
      R"(Convolution of images whose channels are last, and what is added to it.

The sum is rounded once. On GPUs it has a kernel on matrix cores in f16 and bf16, which is
fastest where C is a multiple of 8.

Parameters
----------
x : Tensor
    [N, H, W, C] of f32, f16 or bf16.
weight : Tensor
    [O, kernel H, kernel W, C] of x's dtype.
bias : Tensor, optional
    [O] of f32 or x's dtype.
stride, padding, dilation : int or sequence of int
    For both axes, or one for each.
shift : Tensor, optional
    [N, O] of x's dtype, added to all places of an image.
residual : Tensor, optional
    Of the result's shape and dtype, added to it.

Returns
-------
Tensor
    [N, H', W', O] of x's dtype.

Raises
------
ValueError
    If shapes or dtypes do not fit.

Examples
--------
>>> gb.conv2d_nhwc(gb.ones((1, 1, 2, 3)), gb.ones((1, 1, 2, 3)), residual=gb.ones((1, 1, 1, 1)))
tensor([[[[7.]]]])
)");
  bind_conv(m, "conv1d", conv1d, "(1, 1, 2)", "tensor([[[2.]]])");
  bind_conv(m, "conv2d", conv2d, "(1, 1, 2, 2)", "tensor([[[[4.]]]])");
  bind_conv(m, "conv3d", conv3d, "(1, 1, 2, 2, 2)", "tensor([[[[[8.]]]]])");
  m.def(
      "conv_transpose2d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const Integers& stride,
         const Integers& padding, const Integers& output_padding, int64_t groups, const Integers& dilation) {
        return conv_transpose2d(
            x, weight, or_none(bias),
            {.stride = stride.values, .padding = padding.values, .dilation = dilation.values, .groups = groups},
            output_padding.values);
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = Integers{{1}},
      nb::arg("padding") = Integers{{0}}, nb::arg("output_padding") = Integers{{0}}, nb::arg("groups") = 1,
      nb::arg("dilation") = Integers{{1}}, R"(What the gradient of `conv2d` with respect to its input does.

Parameters
----------
x : Tensor
    [N, C, H, W], of float32, float16 or bfloat16; computed in float32.
weight : Tensor
    [C, O / groups, KH, KW], of the dtype of `x`.
bias : Tensor, optional
    [O], of float32 or the dtype of `x`.
stride, padding, output_padding, dilation : int or tuple of int
    One number for both axes, or one for each.
groups : int
    A divisor of C and O.

Returns
-------
Tensor
    [N, O, ...]: (in - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1 along an axis.

Raises
------
ValueError
    Where shapes, dtypes or options do not fit.

>>> gb.conv_transpose2d(gb.ones((1, 1, 1, 1)), gb.ones((1, 1, 1, 2)))
tensor([[[[1., 1.]]]])
)");
  bind_pool(m, "max_pool1d", max_pool1d, "gb.tensor([[[1.0, 2.0]]])", "tensor([[[2.]]])");
  bind_pool(m, "max_pool2d", max_pool2d, "gb.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])", "tensor([[[[4.]]]])");
  bind_pool(m, "max_pool3d", max_pool3d, "gb.ones((1, 1, 2, 2, 2))", "tensor([[[[[1.]]]]])");
  bind_pool(m, "avg_pool1d", avg_pool1d, "gb.tensor([[[1.0, 2.0]]])", "tensor([[[1.5]]])");
  bind_pool(m, "avg_pool2d", avg_pool2d, "gb.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])", "tensor([[[[2.5]]]])");
  bind_pool(m, "avg_pool3d", avg_pool3d, "gb.ones((1, 1, 2, 2, 2))", "tensor([[[[[1.]]]]])");
  m.def(
      "adaptive_avg_pool2d",
      [](const Tensor& x, const Integers& size) {
        const auto [height, width] = height_and_width("adaptive_avg_pool2d", size);
        return adaptive_avg_pool2d(x, height, width);
      },
      nb::arg("x"), nb::arg("output_size"),
      R"(Means of `x` [N, C, H, W] over windows, so that [N, C, height, width] come out.

Output o is the mean of inputs o · H / height, rounded down, to (o + 1) · H / height, rounded up.

Parameters
----------
x : Tensor
    [N, C, H, W], of float32, float16 or bfloat16; computed in float32.
output_size : int or tuple of int
    Height and width, or one number for both.

Raises
------
ValueError
    Where shapes, dtypes or the size do not fit.

>>> gb.adaptive_avg_pool2d(gb.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 1)
tensor([[[[2.5]]]])
)");
  m.def(
      "interpolate",
      [](const Tensor& x, const std::optional<Integers>& size, const std::optional<Factors>& scale_factor,
         const std::string& mode, std::optional<bool> align_corners, std::optional<bool> recompute) {
        return interpolate(x, interpolate_options(size, scale_factor, mode, align_corners, recompute));
      },
      nb::arg("x"), nb::arg("size") = nb::none(), nb::arg("scale_factor") = nb::none(), nb::arg("mode") = "nearest",
      nb::arg("align_corners") = nb::none(), nb::arg("recompute_scale_factor") = nb::none(),
      R"(`x` [N, C, H, W] as [N, C, height, width], as torch.nn.functional has it.

Parameters
----------
x : Tensor
    Of float32, float16 or bfloat16; computed in float32.
size : int or tuple of int, optional
    Height and width, or one number for both.
scale_factor : float or tuple of float, optional
    What the lengths are multiplied by, rounded down. Either this or `size` is wanted.
mode : str
    ``"nearest"``, ``"nearest-exact"``, ``"bilinear"`` or ``"area"``.
align_corners : bool, optional
    With bilinear: the corners of input and output are the centers of their corner elements.
recompute_scale_factor : bool, optional
    Output o stands for the position (o + 0.5) / scale_factor - 0.5 of the input; with this for the position by the
    lengths, (o + 0.5) · in / out - 0.5, as with `size`. They differ where in · scale_factor is not an integer.

Raises
------
ValueError
    Where shapes, dtypes or options do not fit.

>>> gb.interpolate(gb.tensor([[[[1.0, 2.0]]]]), (1, 4))
tensor([[[[1., 1., 2., 2.]]]])
)");
}

}  // namespace gabbro::python
