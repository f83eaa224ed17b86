#include "src/ops/window.h"

#include <algorithm>

#include "src/ops/op_table.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr const char* kIn[] = {"in_d", "in_h", "in_w"};
constexpr const char* kKernel[] = {"kernel_d", "kernel_h", "kernel_w"};
constexpr const char* kOut[] = {"out_d", "out_h", "out_w"};
constexpr const char* kStride[] = {"stride_d", "stride_h", "stride_w"};
constexpr const char* kPadding[] = {"padding_d", "padding_h", "padding_w"};
constexpr const char* kDilation[] = {"dilation_d", "dilation_h", "dilation_w"};

constexpr int64_t kMost = int64_t{1} << 31;  // of any of these numbers, so that sums of products do not overflow

}  // namespace

Tensor with_three_axes(const Tensor& x, int axes) {
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths.insert(lengths.begin() + 2, static_cast<size_t>(3 - axes), 1);
  return axes == 3 ? x : reshape(x, Shape(lengths));
}

Tensor with_axes(const Tensor& x, int axes) {
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths.erase(lengths.begin() + 2, lengths.begin() + 5 - axes);
  return axes == 3 ? x : reshape(x, Shape(lengths));
}

void set_axes(const char* op, const char* what, const std::vector<int64_t>& numbers, int axes, int64_t least,
              std::array<int64_t, 3>& into) {
  if (numbers.size() != 1 && numbers.size() != static_cast<size_t>(axes))
    throw bad_input("[{}] {} numbers for the {} of {} axes", op, numbers.size(), what, axes);
  for (size_t i = 0; i < static_cast<size_t>(axes); ++i) {
    const int64_t number = numbers.size() == 1 ? numbers[0] : numbers[i];
    if (number < least || number >= kMost) throw bad_input("[{}] a {} of {}", op, what, number);
    into[3 - static_cast<size_t>(axes) + i] = number;
  }
}

void set_outputs(const char* op, const Tensor& x, const Shape& given, WindowAxes& w) {
  for (size_t i = 0; i < 3; ++i) {
    w.in[i] = x.shape()[static_cast<int>(i) + 2];
    const int64_t room = w.in[i] + 2 * w.padding[i] - (w.kernel[i] - 1) * w.dilation[i] - 1;
    if (room < 0) {
      throw bad_input("[{}] a window of {} (dilation {}, padding {}) does not fit in {} elements of x {}", op,
                      w.kernel[i], w.dilation[i], w.padding[i], w.in[i], given.to_string());
    }
    w.out[i] = room / w.stride[i] + 1;
  }
}

Attributes window_attributes(const WindowAxes& w) {
  Attributes attributes;
  for (size_t i = 0; i < 3; ++i) {
    attributes.set(kIn[i], w.in[i]);
    attributes.set(kKernel[i], w.kernel[i]);
    attributes.set(kOut[i], w.out[i]);
    attributes.set(kStride[i], w.stride[i]);
    attributes.set(kPadding[i], w.padding[i]);
    attributes.set(kDilation[i], w.dilation[i]);
  }
  return attributes;
}

WindowAxes window_of(const Attributes& attributes) {
  WindowAxes w;
  for (size_t i = 0; i < 3; ++i) {
    w.in[i] = attributes.integer(kIn[i]);
    w.kernel[i] = attributes.integer(kKernel[i]);
    w.out[i] = attributes.integer(kOut[i]);
    w.stride[i] = attributes.integer(kStride[i]);
    w.padding[i] = attributes.integer(kPadding[i]);
    w.dilation[i] = attributes.integer(kDilation[i]);
  }
  return w;
}

}  // namespace gabbro
