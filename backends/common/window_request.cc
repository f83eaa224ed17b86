#include "backends/common/window_request.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace gabbro::abi {
namespace {

constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();  // what the kernels count in 32 bits

bool is_real(const TensorView& view, int rank) {
  return (view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16) && view.rank == rank &&
         is_plain(view, view.dtype) && is_contiguous(view);
}

// Along axis i (depth, height, width); `kernel` where the request has no weights to tell it.
void read_axes(const KernelRequest& request, Window& w) {
  constexpr const char* kKernel[] = {"kernel_d", "kernel_h", "kernel_w"};
  constexpr const char* kStride[] = {"stride_d", "stride_h", "stride_w"};
  constexpr const char* kPadding[] = {"padding_d", "padding_h", "padding_w"};
  constexpr const char* kDilation[] = {"dilation_d", "dilation_h", "dilation_w"};
  for (int i = 0; i < 3; ++i) {
    w.kernel[i] = integer_attribute(request, kKernel[i], 1);
    w.stride[i] = integer_attribute(request, kStride[i], 1);
    w.padding[i] = integer_attribute(request, kPadding[i], 0);
    w.dilation[i] = integer_attribute(request, kDilation[i], 1);
  }
}

// Whether sizes fit in 32 bits and the window is inside the padded input.
bool is_sound(const Window& w) {
  for (int i = 0; i < 3; ++i) {
    for (const int64_t number : {w.in[i], w.kernel[i], w.out[i], w.stride[i], w.padding[i], w.dilation[i]})
      if (number < 0 || number > kMostCounted) return false;
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.out[i] < 1) return false;
    const int64_t reach = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    if (reach > w.in[i] + 2 * w.padding[i] || reach > kMostCounted) return false;
  }
  return w.inputs() <= kMostCounted && w.outputs() <= kMostCounted && w.taps() <= kMostCounted;
}

// x is the only tensor whose window is `in`.
bool read_plane_window(const KernelRequest& request, Window& w, const int64_t* out) {
  read_axes(request, w);
  std::copy_n(request.inputs[0].shape + 2, 3, w.in);
  std::copy_n(out, 3, w.out);
  return is_sound(w);
}

bool read_weights(const KernelRequest& request, ConvRequest& conv, const TensorView& narrow, const TensorView& wide) {
  const TensorView &x = request.inputs[0], &weight = request.inputs[1], &y = request.outputs[0];
  if (!is_real(x, 5) || !is_real(weight, 5) || !is_real(y, 5) || weight.dtype != x.dtype || y.dtype != x.dtype)
    return false;
  conv.dtype = x.dtype;
  conv.images = x.shape[0];
  conv.groups = integer_attribute(request, "groups", 1);
  conv.bias = request.input_count == 3;
  if (conv.groups < 1 || x.shape[1] % conv.groups != 0 || y.shape[1] % conv.groups != 0) return false;
  conv.in_channels = x.shape[1] / conv.groups;
  conv.out_channels = y.shape[1] / conv.groups;
  if (conv.bias && !has_shape(request.inputs[2], DType::f32, {y.shape[1]})) return false;
  read_axes(request, conv.window);
  std::copy_n(weight.shape + 2, 3, conv.window.kernel);
  std::copy_n(wide.shape + 2, 3, conv.window.in);
  std::copy_n(narrow.shape + 2, 3, conv.window.out);
  return y.shape[0] == x.shape[0] && is_sound(conv.window) && conv.in_channels * conv.window.taps() <= kMostCounted &&
         elements(y) > 0 && elements(weight) > 0;
}

}  // namespace

bool read_im2col(const KernelRequest& request, Im2colRequest& im2col) {
  if (!has_operands(request, 1, 1) || !is_real(request.inputs[0], 5) || !is_real(request.outputs[0], 3)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  const int64_t out[] = {integer_attribute(request, "out_d", 0), integer_attribute(request, "out_h", 0),
                         integer_attribute(request, "out_w", 0)};
  if (!read_plane_window(request, im2col.window, out) || y.dtype != x.dtype) return false;
  im2col.planes = x.shape[0] * x.shape[1];
  im2col.dtype = x.dtype;
  im2col.value = static_cast<float>(real_attribute(request, "value", 0));
  return y.shape[0] == x.shape[0] && y.shape[1] == x.shape[1] * im2col.window.taps() &&
         y.shape[2] == im2col.window.outputs() && elements(y) > 0;
}

bool read_conv(const KernelRequest& request, ConvRequest& conv) {
  if (request.input_count < 2 || !has_operands(request, std::min(request.input_count, 3), 1)) return false;
  const TensorView& weight = request.inputs[1];
  if (!read_weights(request, conv, request.outputs[0], request.inputs[0])) return false;
  return weight.shape[0] == conv.groups * conv.out_channels && weight.shape[1] == conv.in_channels;
}

bool read_conv_nhwc(const KernelRequest& request, ConvNhwcRequest& conv) {
  int inputs = 2;
  for (auto& [name, number] :
       {std::pair<const char*, int*>{"bias", &conv.bias}, {"shift", &conv.shift}, {"residual", &conv.residual}})
    *number = integer_attribute(request, name, 0) != 0 ? inputs++ : -1;
  if (!has_operands(request, inputs, 1)) return false;
  const TensorView &x = request.inputs[0], &weight = request.inputs[1], &y = request.outputs[0];
  if (!is_real(x, 4) || !is_real(weight, 4) || !is_real(y, 4) || weight.dtype != x.dtype || y.dtype != x.dtype)
    return false;
  conv.dtype = x.dtype;
  conv.images = x.shape[0];
  conv.in_channels = x.shape[3];
  conv.out_channels = y.shape[3];
  if (conv.bias >= 0 && !has_shape(request.inputs[conv.bias], DType::f32, {conv.out_channels})) return false;
  if (conv.shift >= 0) {
    TensorView shift = request.inputs[conv.shift];  // a part of longer rows may be
    if (shift.rank != 2 || shift.strides[0] < 0 || shift.strides[0] > kMostCounted) return false;
    conv.shift_step = std::exchange(shift.strides[0], shift.shape[1]);
    if (!has_shape(shift, x.dtype, {conv.images, conv.out_channels})) return false;
  }
  if (conv.residual >= 0 &&
      (!is_real(request.inputs[conv.residual], 4) ||
       !has_shape(request.inputs[conv.residual], x.dtype, {y.shape[0], y.shape[1], y.shape[2], y.shape[3]})))
    return false;
  read_axes(request, conv.window);
  conv.doubled = integer_attribute(request, "doubled", 0) != 0;
  conv.window.in[0] = conv.window.out[0] = conv.window.kernel[0] = 1;
  std::copy_n(weight.shape + 1, 2, conv.window.kernel + 1);
  for (int axis = 1; axis < 3; ++axis) conv.window.in[axis] = x.shape[axis] * (conv.doubled ? 2 : 1);
  std::copy_n(y.shape + 1, 2, conv.window.out + 1);
  return y.shape[0] == x.shape[0] && weight.shape[0] == conv.out_channels && weight.shape[3] == conv.in_channels &&
         is_sound(conv.window) && conv.in_channels * conv.window.taps() <= kMostCounted &&
         conv.images * conv.window.outputs() <= kMostCounted && elements(y) > 0 && elements(weight) > 0;
}

bool read_conv_transpose(const KernelRequest& request, ConvRequest& conv) {
  if (request.input_count < 2 || !has_operands(request, std::min(request.input_count, 3), 1)) return false;
  const TensorView& weight = request.inputs[1];
  if (!read_weights(request, conv, request.inputs[0], request.outputs[0])) return false;
  return weight.shape[0] == conv.groups * conv.in_channels && weight.shape[1] == conv.out_channels;
}

bool read_conv_weight_gradient(const KernelRequest& request, ConvRequest& conv) {
  if (!has_operands(request, 2, 1)) return false;
  const TensorView inputs[] = {request.inputs[0], request.outputs[0]};
  KernelRequest forwards = request;
  forwards.inputs = inputs;
  forwards.outputs = &request.inputs[1];
  return read_conv(forwards, conv);
}

bool read_pool(const KernelRequest& request, PoolRequest& pool) {
  if (!has_operands(request, 1, 1) || !is_real(request.inputs[0], 5) || !is_real(request.outputs[0], 5)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  pool.planes = x.shape[0] * x.shape[1];
  pool.dtype = x.dtype;
  pool.largest = integer_attribute(request, "largest", 0) != 0;
  pool.counts_padding = integer_attribute(request, "counts_padding", 0) != 0;
  return y.dtype == x.dtype && y.shape[0] == x.shape[0] && y.shape[1] == x.shape[1] &&
         read_plane_window(request, pool.window, y.shape + 2) && elements(y) > 0;
}

bool read_max_pool_gradient(const KernelRequest& request, PoolRequest& pool) {
  if (!has_operands(request, 2, 1)) return false;
  const TensorView &x = request.inputs[0], &dx = request.outputs[0];
  KernelRequest forwards = request;
  forwards.input_count = 1;
  forwards.outputs = &request.inputs[1];
  return read_pool(forwards, pool) && is_real(dx, 5) && dx.dtype == x.dtype && same_shape(dx, x);
}

bool read_resize(const KernelRequest& request, ResizeRequest& resize) {
  if (!has_operands(request, 1, 1) || !is_real(request.inputs[0], 4) || !is_real(request.outputs[0], 4)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  resize.planes = x.shape[0] * x.shape[1];
  resize.dtype = x.dtype;
  std::copy_n(x.shape + 2, 2, resize.in);
  std::copy_n(y.shape + 2, 2, resize.out);
  resize.mode = std::string_view(request.op) == "adaptive_avg_pool2d" ? 0 : integer_attribute(request, "mode", 1);
  resize.aligned_corners = integer_attribute(request, "aligned_corners", 0) != 0;
  resize.step[0] = static_cast<float>(real_attribute(request, "step_h", 0));
  resize.step[1] = static_cast<float>(real_attribute(request, "step_w", 0));
  return y.dtype == x.dtype && y.shape[0] == x.shape[0] && y.shape[1] == x.shape[1] && elements(x) > 0 &&
         elements(y) > 0 && resize.in[0] * resize.in[1] <= kMostCounted &&
         resize.out[0] * resize.out[1] <= kMostCounted && resize.mode >= 0 && resize.mode <= 2;
}

}  // namespace gabbro::abi
