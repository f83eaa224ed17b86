#include "backends/common/norm_request.h"

#include <limits>
#include <string_view>

namespace gabbro::abi {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // columns, counted in 32 bits by the kernels

bool is_real(const TensorView& view) {
  return (view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16) &&
         is_plain(view, view.dtype) && is_contiguous(view);
}

bool is_half(const TensorView& view) { return view.dtype == DType::f16 || view.dtype == DType::bf16; }

// x, `given` inputs more, and then a weight and a bias of `channels` elements where the attributes say so.
bool read_operands(const KernelRequest& request, int given, int64_t channels, NormRequest& norm) {
  int count = 1 + given;
  norm.weight_at = integer_attribute(request, "weight", 0) != 0 ? count++ : -1;
  norm.bias_at = integer_attribute(request, "bias", 0) != 0 ? count++ : -1;
  if (!has_operands(request, count, 1)) return false;
  for (int i = 1; i < count; ++i) {
    const bool parameter = i > given;
    if (i == given + 1)
      norm.half_parameters = is_half(request.inputs[i]) && request.inputs[i].dtype == request.inputs[0].dtype;
    const DType dtype = parameter && norm.half_parameters ? request.inputs[0].dtype : DType::f32;
    if (!has_shape(request.inputs[i], dtype, {channels})) return false;
  }
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  norm.dtype = x.dtype;
  norm.epsilon = static_cast<float>(real_attribute(request, "epsilon", 0));
  return is_real(x) && is_plain(y, x.dtype) && is_contiguous(y) && same_shape(x, y) && elements(x) > 0;
}

bool has_axes(const KernelRequest& request, int rank) {
  return request.input_count > 0 && request.inputs[0].rank >= rank;
}

}  // namespace

bool read_layer_norm(const KernelRequest& request, NormRequest& norm) {
  if (!has_axes(request, 1)) return false;
  const TensorView& x = request.inputs[0];
  norm.columns = x.shape[x.rank - 1];
  if (!read_operands(request, 0, norm.columns, norm) || norm.columns > kMost) return false;
  norm.rows = elements(x) / norm.columns;
  return true;
}

bool read_rms_norm(const KernelRequest& request, NormRequest& norm) {
  if (!has_operands(request, 2, 1) || !has_axes(request, 1)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  norm = {.columns = x.shape[x.rank - 1],
          .dtype = x.dtype,
          .epsilon = static_cast<float>(real_attribute(request, "epsilon", 0)),
          .weight_at = 1,
          .half_parameters = is_half(x) && request.inputs[1].dtype == x.dtype,
          .centered = false};
  if (norm.columns < 1 || norm.columns > kMost ||
      !has_shape(request.inputs[1], norm.half_parameters ? x.dtype : DType::f32, {norm.columns}))
    return false;
  norm.rows = elements(x) / norm.columns;
  return is_real(x) && is_plain(y, x.dtype) && is_contiguous(y) && same_shape(x, y);
}

bool read_add_norm(const KernelRequest& request, NormRequest& norm) {
  if (request.input_count < 2 || request.output_count != 2) return false;
  KernelRequest alone = request;
  const int addend = alone.input_count -= 1;
  alone.output_count = 1;
  const bool rms = request.op == std::string_view("add_rms_norm");
  if (!(rms ? read_rms_norm(alone, norm) : read_layer_norm(alone, norm))) return false;
  norm.addend_at = addend;
  for (const TensorView* view : {&request.inputs[addend], &request.outputs[1]}) {
    if (view->dtype != norm.dtype || !is_real(*view) || !same_shape(*view, request.inputs[0])) return false;
  }
  return true;
}

bool read_group_norm(const KernelRequest& request, NormRequest& norm) {
  if (!has_axes(request, 2)) return false;
  const TensorView& x = request.inputs[0];
  const int64_t channels = x.shape[1];
  norm.groups = integer_attribute(request, "groups", 1);
  if (!read_operands(request, 0, channels, norm) || norm.groups < 1 || channels % norm.groups != 0) return false;
  norm.rows = x.shape[0] * norm.groups;
  norm.columns = elements(x) / norm.rows;
  norm.spatial = norm.columns / (channels / norm.groups);
  return norm.columns <= kMost;
}

bool read_batch_norm(const KernelRequest& request, NormRequest& norm) {
  if (!has_axes(request, 2)) return false;
  const TensorView& x = request.inputs[0];
  norm.groups = x.shape[1];
  if (!read_operands(request, 2, norm.groups, norm)) return false;
  norm.rows = x.shape[0] * norm.groups;
  norm.columns = norm.spatial = elements(x) / norm.rows;
  norm.activation = integer_attribute(request, "activation", 0);
  return norm.columns <= kMost && norm.activation >= 0 && norm.activation <= 3;
}

bool read_moments(const KernelRequest& request, MomentsRequest& moments) {
  if (!has_operands(request, 1, 2) || request.inputs[0].rank < 2 || !is_real(request.inputs[0])) return false;
  const TensorView& x = request.inputs[0];
  moments = {.outer = x.shape[0], .channels = x.shape[1], .inner = 1, .dtype = x.dtype};
  for (int axis = 2; axis < x.rank; ++axis) moments.inner *= x.shape[axis];
  return has_shape(request.outputs[0], DType::f32, {moments.channels}) &&
         has_shape(request.outputs[1], DType::f32, {moments.channels}) && moments.outer * moments.inner <= kMost;
}

bool read_batch_norm_sums(const KernelRequest& request, MomentsRequest& moments) {
  if (!has_operands(request, 3, 2)) return false;
  KernelRequest alone = request;
  alone.input_count = 1;
  const TensorView &x = request.inputs[0], &dy = request.inputs[2];
  return read_moments(alone, moments) && has_shape(request.inputs[1], DType::f32, {moments.channels}) && is_real(dy) &&
         dy.dtype == x.dtype && same_shape(dy, x) && elements(x) > 0;
}

}  // namespace gabbro::abi
