// The operands of `sampling` (docs/design/fused_ops.md), whatever the device.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

// A row of the settings.
struct SamplingSettings {
  float temperature, top_k, top_p, log_min_p, repeat_penalty, frequency_penalty, presence_penalty;
};
// A token whose logit changes.
struct SamplingEdit {
  int32_t token;  // -1: none
  int32_t count;  // in the penalty window
};

struct SamplingRequest {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t edits = 0;  // of each row
};

// Reads a request for logits [rows, columns], both from 1 to 2^24 - 1. False: the operands are others.
bool read_sampling_request(const KernelRequest& request, SamplingRequest& sampling);

// The logit with its bias, and with the penalties if the token is in their window.
float edited_logit(float logit, float bias, int32_t count, const SamplingSettings& settings);

}  // namespace gabbro::abi
