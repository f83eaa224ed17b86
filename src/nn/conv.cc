#include "gabbro/nn/conv.h"

#include "gabbro/nn/init.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::nn {
namespace {

// One number for each of `axes`.
std::vector<int64_t> for_axes(const char* what, const std::vector<int64_t>& numbers, int axes) {
  if (numbers.size() == 1) return std::vector<int64_t>(static_cast<size_t>(axes), numbers[0]);
  if (std::ssize(numbers) != axes) throw bad_input("[conv] {} numbers of {} for {} axes", numbers.size(), what, axes);
  return numbers;
}

// [a, b, kernel...], with `a` and `b` channels where the groups allow it.
Shape weight_shape(int64_t a, int64_t b, int64_t groups, const std::vector<int64_t>& kernel, int axes) {
  if (a < 1 || b < 1 || groups < 1 || a % groups != 0 || b % groups != 0)
    throw bad_input("[conv] {} and {} channels in {} groups", a, b, groups);
  std::vector<int64_t> lengths = for_axes("kernel_size", kernel, axes);
  for (const int64_t length : lengths)
    if (length < 1) throw bad_input("[conv] a kernel of length {}", length);
  lengths.insert(lengths.begin(), {a, b / groups});
  return Shape(lengths);
}

Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, int axes) {
  if (axes == 1) return conv1d(x, weight, bias, options);
  return axes == 2 ? conv2d(x, weight, bias, options) : conv3d(x, weight, bias, options);
}

}  // namespace

template <int axes>
ConvNd<axes>::ConvNd(const Factory& make, const ConvModuleOptions& o)
    : chosen_(o),
      options_{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups},
      padding_mode_(o.padding_mode) {
  const Shape shape = weight_shape(o.out_channels, o.in_channels, o.groups, o.kernel_size, axes);
  const std::vector<int64_t> stride = for_axes("stride", o.stride, axes),
                             padding = for_axes("padding", o.padding, axes),
                             dilation = for_axes("dilation", o.dilation, axes);
  bool uneven = false;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t total = o.same ? dilation[i] * (shape[static_cast<int>(i) + 2] - 1) : 2 * padding[i];
    if (o.same && stride[i] != 1) throw bad_input("[conv] a stride of {} does not keep the lengths", stride[i]);
    widths_.emplace_back(total / 2, total - total / 2);
    uneven = uneven || total % 2 != 0;
  }
  if (padding_mode_ == PaddingMode::kZeros && !uneven) {
    options_.padding.clear();
    for (const auto& [before, after] : widths_) options_.padding.push_back(before);
    widths_.clear();
  } else {
    options_.padding = {0};
  }
  add_parameter("weight", weight, init::within_fan_in(make, shape, shape));
  if (o.bias) add_parameter("bias", bias, init::within_fan_in(make, Shape{o.out_channels}, shape));
}

template <int axes>
Tensor ConvNd<axes>::forward(const Tensor& x) {
  if (widths_.empty() || x.shape().rank() != axes + 2) return convolved(x, weight, bias, options_, axes);
  std::vector<std::pair<int64_t, int64_t>> widths{{0, 0}, {0, 0}};
  widths.insert(widths.end(), widths_.begin(), widths_.end());
  const PadMode mode = padding_mode_ == PaddingMode::kZeros     ? PadMode::kConstant
                       : padding_mode_ == PaddingMode::kReflect ? PadMode::kReflect
                                                                : PadMode::kEdge;
  return convolved(pad(x, widths, mode), weight, bias, options_, axes);
}

template class ConvNd<1>;
template class ConvNd<2>;
template class ConvNd<3>;

ConvTranspose2d::ConvTranspose2d(const Factory& make, const ConvTransposeOptions& o)
    : chosen_(o), options_{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups} {
  const Shape shape = weight_shape(o.in_channels, o.out_channels, o.groups, o.kernel_size, 2);
  add_parameter("weight", weight, init::within_fan_in(make, shape, shape));  // PyTorch too takes axis 1 for the fan
  if (o.bias) add_parameter("bias", bias, init::within_fan_in(make, Shape{o.out_channels}, shape));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias, options_, chosen_.output_padding);
}

}  // namespace gabbro::nn
