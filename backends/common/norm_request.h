// The operands of the normalizing ops, whatever the device.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

// rms_norm, layer_norm, group_norm, batch_norm: contiguous x of f32, f16 or bf16 as rows of `columns` elements, of
// which each is shifted by a mean and scaled by a variance (a row's own, or given ones), then by the weight and the
// bias of its channel: (row % groups) · columns / spatial + column / spatial.
struct NormRequest {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t groups = 1;
  int64_t spatial = 1;
  DType dtype = DType::f32;
  float epsilon = 0;
  int weight_at = -1;  // the inputs' numbers, or -1
  int bias_at = -1;
  bool half_parameters = false;  // of x's dtype, which is f16 or bf16; else f32
  bool centered = true;          // false: rms_norm, which takes the mean for 0
  int addend_at = -1;            // of add_rms_norm and add_layer_norm; output 1 is the sum
  int64_t activation = 0;        // of batch_norm_fused: 1 relu, 2 gelu_tanh, 3 silu
};
bool read_rms_norm(const KernelRequest& request, NormRequest& norm);
bool read_layer_norm(const KernelRequest& request, NormRequest& norm);
bool read_add_norm(const KernelRequest& request, NormRequest& norm);  // of either of these two, after a sum
bool read_group_norm(const KernelRequest& request, NormRequest& norm);
bool read_batch_norm(const KernelRequest& request, NormRequest& norm);  // rows: of an image and a channel; or fused

// moments: contiguous x [outer, channels, inner...] of f32, f16 or bf16 to mean and variance f32 [channels].
struct MomentsRequest {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 0;
  DType dtype = DType::f32;
};
bool read_moments(const KernelRequest& request, MomentsRequest& moments);
// batch_norm_sums: x, mean f32 [channels], dy like x to the sums of dy and of dy · (x - mean), f32 [channels].
bool read_batch_norm_sums(const KernelRequest& request, MomentsRequest& moments);

}  // namespace gabbro::abi
