#include "src/models/diffusion/resnet_block.h"

#include "gabbro/ops/image.h"
#include "gabbro/ops/shapes.h"
#include "src/models/diffusion/adaptable.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

std::shared_ptr<nn::Conv2d> make_conv(const nn::Factory& make, const SquareConv& o) {
  return std::make_shared<AdaptableConv2d>(make, nn::ConvModuleOptions{.in_channels = o.in,
                                                                       .out_channels = o.out,
                                                                       .kernel_size = {o.kernel},
                                                                       .stride = {o.stride},
                                                                       .padding = {o.padding}});
}

std::shared_ptr<nn::Linear> make_linear(const nn::Factory& make, const nn::LinearOptions& options) {
  return std::make_shared<AdaptableLinear>(make, options);
}

std::shared_ptr<nn::GroupNorm> make_group_norm(const nn::Factory& make, int64_t groups, int64_t channels, double eps) {
  return std::make_shared<AdaptableGroupNorm>(
      make, nn::GroupNormOptions{.num_groups = groups, .num_channels = channels, .eps = eps});
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
  Tensor h = (*conv1)(silu((*norm1)(x)));  // [B, O, H, W]
  if (time_emb_proj != nullptr) h = h + expand_dims((*time_emb_proj)(silu(time)), {2, 3});
  h = (*conv2)(silu((*norm2)(h)));
  const Tensor sum = (conv_shortcut != nullptr ? (*conv_shortcut)(x) : x) + h;
  return output_scale_ == 1 ? sum : sum / output_scale_;
}

Downsample::Downsample(const nn::Factory& make, int64_t channels, Padding padding) : padding_(padding) {
  const SquareConv options{
      .in = channels, .out = channels, .stride = 2, .padding = padding == Padding::kAround ? 1 : 0};
  add_module("conv", conv, make_conv(make.at("conv"), options));
}

Tensor Downsample::operator()(const Tensor& x) const {
  return (*conv)(padding_ == Padding::kAround ? x : pad(x, {{0, 0}, {0, 0}, {0, 1}, {0, 1}}));
}

Upsample::Upsample(const nn::Factory& make, int64_t channels) {
  add_module("conv", conv, make_conv(make.at("conv"), {.in = channels, .out = channels}));
}

Tensor Upsample::operator()(const Tensor& x, int64_t height, int64_t width) const {
  return (*conv)(upsample_nearest2d(x, height, width));
}

}  // namespace gabbro::diffusion
