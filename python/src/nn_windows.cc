// Layers that look at images [N, C, ...] through a window: convolutions, and a pool.
#include "gabbro/nn/conv.h"
#include "gabbro/nn/pool.h"

#include "python/src/nn.h"
#include "python/src/settings.h"

namespace gabbro::python {
namespace {

using Padding = std::variant<std::string, Integers>;

nn::PaddingMode padding_mode(const std::string& name) {
  if (name == "zeros") return nn::PaddingMode::kZeros;
  if (name == "reflect") return nn::PaddingMode::kReflect;
  if (name == "replicate") return nn::PaddingMode::kReplicate;
  if (name == "circular") return nn::PaddingMode::kCircular;
  throw bad_input("[conv] padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not '{}'", name);
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

}  // namespace

const char* padding_mode_name(nn::PaddingMode mode) {
  switch (mode) {
    case nn::PaddingMode::kZeros:
      return "zeros";
    case nn::PaddingMode::kReflect:
      return "reflect";
    case nn::PaddingMode::kReplicate:
      return "replicate";
    case nn::PaddingMode::kCircular:
      return "circular";
  }
  return "";
}

namespace {

std::vector<int64_t> for_each_axis(const std::vector<int64_t>& numbers, int axes) {
  return numbers.size() == 1 ? std::vector<int64_t>(static_cast<size_t>(axes), numbers[0]) : numbers;
}

// PyTorch pads by what a layer was made with where it does not pad with zeros, whatever is set later.
void require_zeros(const nn::ConvModuleOptions& options, const char* name, bool unchanged) {
  if (unchanged || options.padding_mode == nn::PaddingMode::kZeros) return;
  throw nb::attribute_error(fmt::format("[conv] {} of a layer with padding_mode '{}' is chosen when it is made", name,
                                        padding_mode_name(options.padding_mode))
                                .c_str());
}

// Attributes of convolutions of both kinds. `several`: they have several axes.
template <class Options, class Class>
void conv_settings(Class& conv, bool several) {
  using L = typename Class::Type;
  fixed(conv, "in_channels", [](const L& self) { return self.options().in_channels; });
  fixed(conv, "out_channels", [](const L& self) { return self.options().out_channels; });
  fixed(conv, "kernel_size", [](const L& self) { return numbers_object(self.options().kernel_size, false); });
  numbers_option(conv, "stride", &Options::stride, several);
  option(conv, "groups", &Options::groups);
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
    ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
device, dtype
    As in `Linear`.

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
  conv_settings<nn::ConvModuleOptions>(conv, axes > 1);
  fixed(conv, "padding_mode", [](const Conv& self) { return padding_mode_name(self.options().padding_mode); });
  setting_of<const Padding&>(
      conv, "padding",
      +[](const Conv& self) -> nb::object {
        const nn::ConvModuleOptions& o = self.options();
        return o.same ? nb::object(nb::str("same")) : numbers_object(o.padding, axes > 1);
      },
      +[](Conv& self, const Padding& value) {
        nn::ConvModuleOptions options = self.options();
        options.same = false;
        options.padding = {0};
        set_padding(options, value);
        require_zeros(
            self.options(), "padding",
            options.same == self.options().same && for_each_axis(options.padding, axes) == self.options().padding);
        self.set_options(options);
      });
  setting_of<const Integers&>(
      conv, "dilation", +[](const Conv& self) { return numbers_object(self.options().dilation, axes > 1); },
      +[](Conv& self, const Integers& value) {
        nn::ConvModuleOptions options = self.options();
        options.dilation = value.values;
        require_zeros(self.options(), "dilation",
                      !options.same || for_each_axis(value.values, axes) == self.options().dilation);
        self.set_options(options);
      });
}

void bind_transposed(nb::module_& m) {
  nb::class_<nn::ConvTranspose2d, nn::Layer> conv(m, "ConvTranspose2d",
                                                  R"(What the gradient of `Conv2d` with respect to its input does.

[N, in_channels, H, W] to [N, out_channels, H', W'], where H' is
(H - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1. Arguments as in `Conv2d`.

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
      nb::arg("bias") = true, nb::arg("dilation") = Integers{{1}}, nb::kw_only(),
      nb::arg("device").none() = DeviceArgument{nb::none()}, nb::arg("dtype") = DType::f32);
  tensor_member(conv, "weight", &nn::ConvTranspose2d::weight);
  tensor_member(conv, "bias", &nn::ConvTranspose2d::bias, true);
  conv_settings<nn::ConvTransposeOptions>(conv, true);
  numbers_option(conv, "padding", &nn::ConvTransposeOptions::padding);
  numbers_option(conv, "output_padding", &nn::ConvTransposeOptions::output_padding);
  numbers_option(conv, "dilation", &nn::ConvTransposeOptions::dilation);
  absent(conv, "padding_mode", "zeros");
}

}  // namespace

void bind_window_layers(nb::module_& m) {
  bind_conv<1>(m, "Conv1d", "(1, 2, 8)");
  bind_conv<2>(m, "Conv2d", "(1, 2, 8, 8)");
  bind_conv<3>(m, "Conv3d", "(1, 2, 4, 4, 4)");
  bind_transposed(m);
  nb::class_<nn::AdaptiveAvgPool2d, nn::Layer> adaptive(m, "AdaptiveAvgPool2d",
                                                        R"(Means over windows, so that an image of this size comes out.

>>> gb.nn.AdaptiveAvgPool2d(1)(gb.ones((2, 3, 5, 7))).shape
(2, 3, 1, 1)
)");
  adaptive.def(
      "__init__",
      [](nn::AdaptiveAvgPool2d* self, const Integers& size) { new (self) nn::AdaptiveAvgPool2d(size.values); },
      nb::arg("output_size"));
  setting_of<const Integers&>(
      adaptive, "output_size", +[](const nn::AdaptiveAvgPool2d& self) { return numbers_object(self.size()); },
      +[](nn::AdaptiveAvgPool2d& self, const Integers& value) { self.set_size(value.values); });
}

}  // namespace gabbro::python
