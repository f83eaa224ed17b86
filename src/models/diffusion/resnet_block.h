// The convolutional blocks that U-Nets and autoencoders share, under the names of diffusers.
#pragma once

#include <memory>

#include "src/models/diffusion/adaptable.h"

namespace gabbro::diffusion {

// Layers that take adapters (adaptable.h). A convolution has one number for each of its axes in all of these models.
struct SquareConv {
  int64_t in = 0, out = 0, kernel = 3, stride = 1, padding = 1;
};
std::shared_ptr<AdaptableConv2d> make_conv(const nn::Factory& make, const SquareConv& options);
std::shared_ptr<AdaptableLinear> make_linear(const nn::Factory& make, const nn::LinearOptions& options);
std::shared_ptr<AdaptableGroupNorm> make_group_norm(const nn::Factory& make, int64_t groups, int64_t channels,
                                                    double eps);

struct ResnetBlockOptions {
  int64_t in_channels = 0, out_channels = 0;
  int64_t time_width = 0;  // of the time embedding; 0: there is none
  int64_t groups = 32;
  double eps = 1e-5;
  double output_scale = 1;  // that the sum is divided by
};

// (shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x))) + time)))) / output_scale: [B, C, H, W] -> [B, O, H, W].
class ResnetBlock : public nn::Module {
 public:
  ResnetBlock(const nn::Factory& make, const ResnetBlockOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& time) const;  // time f32 [B, T], or undefined
  // With what time_emb_proj makes of silu(time), [B, O], or undefined.
  Tensor shifted(const Tensor& x, const Tensor& shift) const;

  std::shared_ptr<AdaptableGroupNorm> norm1, norm2;
  std::shared_ptr<AdaptableConv2d> conv1, conv2;
  std::shared_ptr<AdaptableLinear> time_emb_proj;
  std::shared_ptr<AdaptableConv2d> conv_shortcut;  // null where the channels stay

 private:
  double output_scale_;
};

// A convolution of stride 2: [B, C, H, W] -> [B, C, ceil(H / 2), ceil(W / 2)], or floor where it pads at the end alone.
class Downsample : public nn::Module {
 public:
  enum class Padding { kAround, kAtEnd };  // the U-Net's, and the autoencoder's: right and bottom
  Downsample(const nn::Factory& make, int64_t channels, Padding padding);
  Tensor operator()(const Tensor& x) const;

  std::shared_ptr<AdaptableConv2d> conv;

 private:
  Padding padding_;
};

// The nearest elements at a new size, then a convolution: [B, C, H, W] -> [B, C, height, width].
class Upsample : public nn::Module {
 public:
  Upsample(const nn::Factory& make, int64_t channels);
  Tensor operator()(const Tensor& x, int64_t height, int64_t width) const;

  std::shared_ptr<AdaptableConv2d> conv;
};

}  // namespace gabbro::diffusion
