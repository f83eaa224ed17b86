#include "backends/common/sampling_request.h"

namespace gabbro::abi {

bool read_sampling_request(const KernelRequest& request, SamplingRequest& sampling) {
  const bool has_edits = request.input_count == 5;
  if (!has_operands(request, has_edits ? 5 : 3, 2) || request.inputs[0].rank != 2) return false;
  const int64_t rows = request.inputs[0].shape[0], columns = request.inputs[0].shape[1];
  constexpr int64_t kMost = int64_t{1} << 24;
  if (rows < 1 || rows >= kMost || columns < 1 || columns >= kMost) return false;
  const auto settings = static_cast<int64_t>(sizeof(SamplingSettings) / sizeof(float));
  const int64_t edits = has_edits && request.inputs[3].rank == 3 ? request.inputs[3].shape[1] : 0;
  if (!has_shape(request.inputs[0], DType::f32, {rows, columns}) ||
      !has_shape(request.inputs[1], DType::f32, {rows, settings}) ||
      !has_shape(request.inputs[2], DType::i32, {rows, 2}) || !has_shape(request.outputs[0], DType::i32, {rows, 1}) ||
      !has_shape(request.outputs[1], DType::f32, {rows, 3}))
    return false;
  if (has_edits && (!has_shape(request.inputs[3], DType::i32, {rows, edits, 2}) ||
                    !has_shape(request.inputs[4], DType::f32, {rows, edits})))
    return false;
  sampling = {.rows = rows, .columns = columns, .edits = edits};
  return true;
}

// Compiled for no particular instruction set, so that no product is fused with a sum, as in the host's sampler.
float edited_logit(float logit, float bias, int32_t count, const SamplingSettings& settings) {
  logit += bias;
  if (count == 0) return logit;
  logit = logit > 0 ? logit / settings.repeat_penalty : logit * settings.repeat_penalty;
  return logit - (static_cast<float>(count) * settings.frequency_penalty + settings.presence_penalty);
}

}  // namespace gabbro::abi
