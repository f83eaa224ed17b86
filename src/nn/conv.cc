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

// The elements of the other end around each axis. Throws bad_input if an axis is shorter than its padding.
Tensor wrapped(Tensor x, const std::vector<std::pair<int64_t, int64_t>>& widths) {
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    const auto [before, after] = widths[static_cast<size_t>(axis)];
    const int64_t length = x.shape()[axis];
    if (std::max(before, after) > length)
      throw bad_input("[conv] circular padding by {} is longer than the axis, {}", std::max(before, after), length);
    std::vector<Tensor> parts;
    if (before > 0) parts.push_back(slice(x, axis, length - before, before));
    parts.push_back(x);
    if (after > 0) parts.push_back(slice(x, axis, 0, after));
    if (parts.size() > 1) x = concat(parts, axis);
  }
  return x;
}

}  // namespace

template <int axes>
ConvNd<axes>::ConvNd(const Factory& make, const ConvModuleOptions& o) : chosen_(o), padding_mode_(o.padding_mode) {
  const Shape shape = weight_shape(o.out_channels, o.in_channels, o.groups, o.kernel_size, axes);
  chosen_.kernel_size = for_axes("kernel_size", o.kernel_size, axes);
  chosen_.stride = for_axes("stride", o.stride, axes);
  chosen_.padding = for_axes("padding", o.padding, axes);
  chosen_.dilation = for_axes("dilation", o.dilation, axes);
  set_options(chosen_);
  add_parameter(make, "weight", weight, init::within_fan_in(make, shape, shape));
  if (o.bias) add_parameter(make, "bias", bias, init::within_fan_in(make, Shape{o.out_channels}, shape));
}

template <int axes>
void ConvNd<axes>::set_options(const ConvModuleOptions& o) {
  const std::vector<int64_t> stride = for_axes("stride", o.stride, axes),
                             padding = for_axes("padding", o.padding, axes),
                             dilation = for_axes("dilation", o.dilation, axes);
  std::vector<std::pair<int64_t, int64_t>> widths;
  bool uneven = false;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t total = o.same ? dilation[i] * (chosen_.kernel_size[i] - 1) : 2 * padding[i];
    if (o.same && stride[i] != 1) throw bad_input("[conv] a stride of {} does not keep the lengths", stride[i]);
    widths.emplace_back(total / 2, total - total / 2);
    uneven = uneven || total % 2 != 0;
  }
  ConvOptions options{.stride = o.stride, .padding = {0}, .dilation = o.dilation, .groups = o.groups};
  if (padding_mode_ == PaddingMode::kZeros && !uneven) {
    options.padding.clear();
    for (const auto& [before, after] : widths) options.padding.push_back(before);
    widths.clear();
  }
  chosen_.stride = o.stride;
  chosen_.padding = o.padding;
  chosen_.dilation = o.dilation;
  chosen_.groups = o.groups;
  chosen_.same = o.same;
  options_ = std::move(options);
  widths_ = std::move(widths);
}

template <int axes>
Tensor ConvNd<axes>::forward(const Tensor& x) {
  if (widths_.empty() || x.shape().rank() != axes + 2) return convolved(x, weight, bias, options_, axes);
  std::vector<std::pair<int64_t, int64_t>> widths{{0, 0}, {0, 0}};
  widths.insert(widths.end(), widths_.begin(), widths_.end());
  if (padding_mode_ == PaddingMode::kCircular) return convolved(wrapped(x, widths), weight, bias, options_, axes);
  const PadMode mode = padding_mode_ == PaddingMode::kZeros     ? PadMode::kConstant
                       : padding_mode_ == PaddingMode::kReflect ? PadMode::kReflect
                                                                : PadMode::kEdge;
  return convolved(pad(x, widths, mode), weight, bias, options_, axes);
}

template class ConvNd<1>;
template class ConvNd<2>;
template class ConvNd<3>;

ConvTranspose2d::ConvTranspose2d(const Factory& make, const ConvTransposeOptions& o) : chosen_(o) {
  const Shape shape = weight_shape(o.in_channels, o.out_channels, o.groups, o.kernel_size, 2);
  chosen_.kernel_size = for_axes("kernel_size", o.kernel_size, 2);
  chosen_.stride = for_axes("stride", o.stride, 2);
  chosen_.padding = for_axes("padding", o.padding, 2);
  chosen_.output_padding = for_axes("output_padding", o.output_padding, 2);
  chosen_.dilation = for_axes("dilation", o.dilation, 2);
  set_options(chosen_);
  add_parameter(make, "weight", weight,
                init::within_fan_in(make, shape, shape));  // PyTorch too takes axis 1 for the fan
  if (o.bias) add_parameter(make, "bias", bias, init::within_fan_in(make, Shape{o.out_channels}, shape));
}

void ConvTranspose2d::set_options(const ConvTransposeOptions& o) {
  chosen_.stride = o.stride;
  chosen_.padding = o.padding;
  chosen_.output_padding = o.output_padding;
  chosen_.dilation = o.dilation;
  chosen_.groups = o.groups;
  options_ = {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias, options_, chosen_.output_padding);
}

}  // namespace gabbro::nn
