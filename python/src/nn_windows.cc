// Layers that look at images [N, C, ...] through a window: convolutions, pools, resizing.
#include "gabbro/nn/conv.h"
#include "gabbro/nn/pool.h"

#include "python/src/interpolation.h"
#include "python/src/nn.h"

namespace gabbro::python {
namespace {

using Padding = std::variant<std::string, Integers>;

nn::PaddingMode padding_mode(const std::string& name) {
  if (name == "zeros") return nn::PaddingMode::kZeros;
  if (name == "reflect") return nn::PaddingMode::kReflect;
  if (name == "replicate") return nn::PaddingMode::kReplicate;
  throw bad_input("[conv] padding_mode is 'zeros', 'reflect' or 'replicate', not '{}'", name);
}

// "same", "valid" or numbers.
void set_padding(nn::ConvModuleOptions& options, const Padding& padding) {
  const auto* name = std::get_if<std::string>(&padding);
  if (name == nullptr) {
    options.padding = std::get<Integers>(padding).values;
  } else if (*name == "same") {
    options.same = true;
  } else if (*name != "valid") {
    throw bad_input("[conv] padding is 'same', 'valid' or numbers, not '{}'", *name);
  }
}

template <int axes>
void bind_conv(nb::module_& m, const char* name, const char* example) {
  using Conv = nn::ConvNd<axes>;
  const std::string doc =
      fmt::format(R"(Cross-correlation of [N, in_channels, ...] with trained kernels: [N, out_channels, ...].

Parameters
----------
in_channels, out_channels : int
kernel_size, stride, dilation : int or tuple of int
    One number for all spatial axes, or one for each.
padding : int, tuple of int or str
    ``"same"`` keeps the lengths, with strides of 1; ``"valid"`` is 0.
groups : int
    A divisor of both numbers of channels.
bias : bool
padding_mode : str
    ``"zeros"``, ``"reflect"`` or ``"replicate"``.
device, dtype
    As those of `Linear`.

Raises
------
ValueError
    Where the options do not fit.

>>> gb.nn.{}(2, 3, 3, padding=1)(gb.ones({})).shape
{}
)",
                  name, example, std::string(example).replace(4, 1, "3"));
  nb::class_<Conv, nn::Layer> conv(m, name, doc.c_str());
  conv.def(
      "__init__",
      [](Conv* self, int64_t in_channels, int64_t out_channels, const Integers& kernel_size, const Integers& stride,
         const Padding& padding, const Integers& dilation, int64_t groups, bool bias, const std::string& mode,
         DeviceArgument device, DType dtype) {
        nn::ConvModuleOptions options{.in_channels = in_channels,
                                      .out_channels = out_channels,
                                      .kernel_size = kernel_size.values,
                                      .stride = stride.values,
                                      .dilation = dilation.values,
                                      .groups = groups,
                                      .bias = bias,
                                      .padding_mode = padding_mode(mode)};
        set_padding(options, padding);
        new (self) Conv(factory(device, dtype), options);
      },
      nb::arg("in_channels"), nb::arg("out_channels"), nb::arg("kernel_size"), nb::arg("stride") = Integers{{1}},
      nb::arg("padding") = Integers{{0}}, nb::arg("dilation") = Integers{{1}}, nb::arg("groups") = 1,
      nb::arg("bias") = true, nb::arg("padding_mode") = "zeros", nb::arg("device").none() = DeviceArgument{nb::none()},
      nb::arg("dtype") = DType::f32);
  tensor_member(conv, "weight", &Conv::weight);
  tensor_member(conv, "bias", &Conv::bias, true);
}

void bind_transposed(nb::module_& m) {
  nb::class_<nn::ConvTranspose2d, nn::Layer> conv(m, "ConvTranspose2d",
                                                  R"(What the gradient of `Conv2d` with respect to its input does.

[N, in_channels, H, W] to [N, out_channels, H', W'], where H' is
(H - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1. Arguments as those of `Conv2d`.

>>> gb.nn.ConvTranspose2d(2, 3, 2, stride=2)(gb.ones((1, 2, 4, 4))).shape
(1, 3, 8, 8)
)");
  conv.def(
      "__init__",
      [](nn::ConvTranspose2d* self, int64_t in_channels, int64_t out_channels, const Integers& kernel_size,
         const Integers& stride, const Integers& padding, const Integers& output_padding, int64_t groups, bool bias,
         const Integers& dilation, DeviceArgument device, DType dtype) {
        new (self) nn::ConvTranspose2d(factory(device, dtype), {.in_channels = in_channels,
                                                                .out_channels = out_channels,
                                                                .kernel_size = kernel_size.values,
                                                                .stride = stride.values,
                                                                .padding = padding.values,
                                                                .output_padding = output_padding.values,
                                                                .dilation = dilation.values,
                                                                .groups = groups,
                                                                .bias = bias});
      },
      nb::arg("in_channels"), nb::arg("out_channels"), nb::arg("kernel_size"), nb::arg("stride") = Integers{{1}},
      nb::arg("padding") = Integers{{0}}, nb::arg("output_padding") = Integers{{0}}, nb::arg("groups") = 1,
      nb::arg("bias") = true, nb::arg("dilation") = Integers{{1}},
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(conv, "weight", &nn::ConvTranspose2d::weight);
  tensor_member(conv, "bias", &nn::ConvTranspose2d::bias, true);
}

template <class P>
void bind_pool(nb::module_& m, const char* name, const char* example) {
  const bool mean = std::string_view(name).starts_with("Avg");
  const std::string doc = fmt::format(
      "The {} of each window of [N, C, ...]. Arguments as those of `gabbro.{}`.\n\n>>> "
      "gb.nn.{}(2)(gb.ones({})).shape[-1]\n2\n",
      mean ? "mean" : "largest element", std::string(mean ? "avg" : "max") + "_pool" + std::string(name).substr(7),
      name, example);
  nb::class_<P, nn::Layer> pool(m, name, doc.c_str());
  const auto stride_of = [](const std::optional<Integers>& stride) {
    return stride ? stride->values : std::vector<int64_t>{};
  };
  if (mean) {
    pool.def(
        "__init__",
        [stride_of](P* self, const Integers& kernel_size, const std::optional<Integers>& stride,
                    const Integers& padding, bool count_include_pad) {
          new (self) P({.kernel = kernel_size.values,
                        .stride = stride_of(stride),
                        .padding = padding.values,
                        .counts_padding = count_include_pad});
        },
        nb::arg("kernel_size"), nb::arg("stride") = nb::none(), nb::arg("padding") = Integers{{0}},
        nb::arg("count_include_pad") = true);
  } else {
    pool.def(
        "__init__",
        [stride_of](P* self, const Integers& kernel_size, const std::optional<Integers>& stride,
                    const Integers& padding, const Integers& dilation) {
          new (self) P({.kernel = kernel_size.values,
                        .stride = stride_of(stride),
                        .padding = padding.values,
                        .dilation = dilation.values});
        },
        nb::arg("kernel_size"), nb::arg("stride") = nb::none(), nb::arg("padding") = Integers{{0}},
        nb::arg("dilation") = Integers{{1}});
  }
}

std::pair<int64_t, int64_t> height_and_width(const Integers& size) {
  if (size.values.empty() || size.values.size() > 2)
    throw bad_input("[size] {} numbers: one or two are wanted", size.values.size());
  return {size.values.front(), size.values.back()};
}

}  // namespace

void bind_window_layers(nb::module_& m) {
  bind_conv<1>(m, "Conv1d", "(1, 2, 8)");
  bind_conv<2>(m, "Conv2d", "(1, 2, 8, 8)");
  bind_conv<3>(m, "Conv3d", "(1, 2, 4, 4, 4)");
  bind_transposed(m);
  bind_pool<nn::MaxPool1d>(m, "MaxPool1d", "(1, 1, 4)");
  bind_pool<nn::MaxPool2d>(m, "MaxPool2d", "(1, 1, 4, 4)");
  bind_pool<nn::MaxPool3d>(m, "MaxPool3d", "(1, 1, 4, 4, 4)");
  bind_pool<nn::AvgPool1d>(m, "AvgPool1d", "(1, 1, 4)");
  bind_pool<nn::AvgPool2d>(m, "AvgPool2d", "(1, 1, 4, 4)");
  bind_pool<nn::AvgPool3d>(m, "AvgPool3d", "(1, 1, 4, 4, 4)");
  nb::class_<nn::AdaptiveAvgPool2d, nn::Layer>(m, "AdaptiveAvgPool2d",
                                               R"(Means over windows, so that an image of this size comes out.

>>> gb.nn.AdaptiveAvgPool2d(1)(gb.ones((2, 3, 5, 7))).shape
(2, 3, 1, 1)
)")
      .def(
          "__init__",
          [](nn::AdaptiveAvgPool2d* self, const Integers& output_size) {
            const auto [height, width] = height_and_width(output_size);
            new (self) nn::AdaptiveAvgPool2d(height, width);
          },
          nb::arg("output_size"));
  nb::class_<nn::Upsample, nn::Layer>(m, "Upsample",
                                      R"([N, C, H, W] resized, to a size or by a factor, as `interpolate` does it.

Parameters
----------
size : int or tuple of int, optional
scale_factor : float or tuple of float, optional
    One of the two is wanted.
mode : str
    ``"nearest"``, ``"nearest-exact"``, ``"bilinear"`` or ``"area"``.
align_corners : bool, optional
recompute_scale_factor : bool, optional

Raises
------
ValueError
    Where the options do not fit each other.

>>> gb.nn.Upsample(scale_factor=2)(gb.ones((1, 1, 2, 3))).shape
(1, 1, 4, 6)
)")
      .def(
          "__init__",
          [](nn::Upsample* self, const std::optional<Integers>& size, const std::optional<Factors>& scale_factor,
             const std::string& mode, std::optional<bool> align_corners, std::optional<bool> recompute) {
            new (self) nn::Upsample(interpolate_options(size, scale_factor, mode, align_corners, recompute));
          },
          nb::arg("size") = nb::none(), nb::arg("scale_factor") = nb::none(), nb::arg("mode") = "nearest",
          nb::arg("align_corners") = nb::none(), nb::arg("recompute_scale_factor") = nb::none());
}

}  // namespace gabbro::python
