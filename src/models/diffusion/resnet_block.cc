#include "src/models/diffusion/resnet_block.h"

#include "src/models/diffusion/image_layout.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

std::shared_ptr<AdaptableConv2d> make_conv(const nn::Factory& make, const SquareConv& o) {
  return std::make_shared<AdaptableConv2d>(make, nn::ConvModuleOptions{.in_channels = o.in,
                                                                       .out_channels = o.out,
                                                                       .kernel_size = {o.kernel},
                                                                       .stride = {o.stride},
                                                                       .padding = {o.padding}});
}

std::shared_ptr<AdaptableLinear> make_linear(const nn::Factory& make, const nn::LinearOptions& options) {
  return std::make_shared<AdaptableLinear>(make, options);
}

std::shared_ptr<AdaptableGroupNorm> make_group_norm(const nn::Factory& make, int64_t groups, int64_t channels,
                                                    double eps) {
  nn::Factory in_f32 = make;
  in_f32.dtype = DType::f32;
  return std::make_shared<AdaptableGroupNorm>(
      in_f32, nn::GroupNormOptions{.num_groups = groups, .num_channels = channels, .eps = eps});
}

ResnetBlock::ResnetBlock(const nn::Factory& make, const ResnetBlockOptions& o) : output_scale_(o.output_scale) {
  add_module("norm1", norm1, make_group_norm(make.at("norm1"), o.groups, o.in_channels, o.eps));
  add_module("conv1", conv1, make_conv(make.at("conv1"), {.in = o.in_channels, .out = o.out_channels}));
  if (o.time_width > 0) {
    add_module("time_emb_proj", time_emb_proj,
               make_linear(make.at("time_emb_proj"), {.in_features = o.time_width, .out_features = o.out_channels}));
  }
  add_module("norm2", norm2, make_group_norm(make.at("norm2"), o.groups, o.out_channels, o.eps));
  add_module("conv2", conv2, make_conv(make.at("conv2"), {.in = o.out_channels, .out = o.out_channels}));
  if (o.in_channels == o.out_channels) return;
  const SquareConv shortcut{.in = o.in_channels, .out = o.out_channels, .kernel = 1, .padding = 0};
  add_module("conv_shortcut", conv_shortcut, make_conv(make.at("conv_shortcut"), shortcut));
}

Tensor ResnetBlock::operator()(const Tensor& x, const Tensor& time) const {
  return shifted(x, time_emb_proj != nullptr ? (*time_emb_proj)(cast(silu(time), x.dtype())) : Tensor());
}

Tensor ResnetBlock::shifted(const Tensor& x, const Tensor& shift) const {
  const Tensor h = conv1->convolve(norm1->then_silu(x), shift, {});  // [B, O, H, W]
  const Tensor shortcut = conv_shortcut != nullptr ? (*conv_shortcut)(x) : x;
  const Tensor sum = conv2->convolve(norm2->then_silu(h), {}, shortcut);
  return output_scale_ == 1 ? sum : sum / output_scale_;
}

Downsample::Downsample(const nn::Factory& make, int64_t channels, Padding padding) : padding_(padding) {
  const SquareConv options{
      .in = channels, .out = channels, .stride = 2, .padding = padding == Padding::kAround ? 1 : 0};
  add_module("conv", conv, make_conv(make.at("conv"), options));
}

Tensor Downsample::operator()(const Tensor& x) const {
  return (*conv)(padding_ == Padding::kAround ? x : pad_at_end(x));
}

Upsample::Upsample(const nn::Factory& make, int64_t channels) {
  add_module("conv", conv, make_conv(make.at("conv"), {.in = channels, .out = channels}));
}

Tensor Upsample::operator()(const Tensor& x, int64_t height, int64_t width) const {
  const ImageSides size = sides_of(x);
  if (has_channels_last(x) && height == 2 * size.height && width == 2 * size.width) return conv->convolve_doubled(x);
  return (*conv)(resize_nearest(x, height, width));
}

}  // namespace gabbro::diffusion
