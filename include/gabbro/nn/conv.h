// Convolutions, named and initialized as in torch.nn.
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// How an image goes on beyond its edges: with zeros, mirrored about the last element, or with that element.
enum class PaddingMode { kZeros, kReflect, kReplicate, kCircular };

// Numbers are one for all spatial axes, or one for each.
struct ConvModuleOptions {
  int64_t in_channels = 0, out_channels = 0;
  std::vector<int64_t> kernel_size{};
  std::vector<int64_t> stride{1}, padding{0}, dilation{1};
  int64_t groups = 1;
  bool bias = true;
  bool same = false;  // as much padding as keeps the lengths, with strides of 1; the odd one after the image
  PaddingMode padding_mode = PaddingMode::kZeros;
};

// x [N, C, ...] -> [N, O, ...].
template <int axes>
class ConvNd : public Layer {
 public:
  ConvNd(const Factory& make, const ConvModuleOptions& options);
  Tensor forward(const Tensor& x) override;
  const ConvModuleOptions& options() const { return chosen_; }
  // stride, padding, dilation and groups count from the next call on; the rest shaped the weight.
  void set_options(const ConvModuleOptions& options);

  Tensor weight;  // [O, C / groups, kernel...]
  Tensor bias;    // [O], or undefined

 private:
  ConvModuleOptions chosen_;
  ConvOptions options_;
  PaddingMode padding_mode_;
  // Before and after each spatial axis, where the op itself does not pad.
  std::vector<std::pair<int64_t, int64_t>> widths_;
};
using Conv1d = ConvNd<1>;
using Conv2d = ConvNd<2>;
using Conv3d = ConvNd<3>;

struct ConvTransposeOptions {
  int64_t in_channels = 0, out_channels = 0;
  std::vector<int64_t> kernel_size{};
  std::vector<int64_t> stride{1}, padding{0}, output_padding{0}, dilation{1};
  int64_t groups = 1;
  bool bias = true;
};

// x [N, C, H, W] -> [N, O, H', W'].
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(const Factory& make, const ConvTransposeOptions& options);
  Tensor forward(const Tensor& x) override;
  const ConvTransposeOptions& options() const { return chosen_; }
  // stride, padding, output_padding, dilation and groups count from the next call on; the rest shaped the weight.
  void set_options(const ConvTransposeOptions& options);

  Tensor weight;  // [C, O / groups, kernel...]
  Tensor bias;    // [O], or undefined

 private:
  ConvTransposeOptions chosen_;
  ConvOptions options_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
