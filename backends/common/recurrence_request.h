// Requests for `causal_conv`, `selective_scan` and `gated_delta_rule` (docs/design/fused_ops.md), as backends read
// them.
#pragma once

#include <optional>

#include "backends/common/request.h"

namespace gabbro::abi {

struct CausalConvInput {
  enum : int { kX, kWeight, kState, kSequence, kPositions, kSlots, kCount, kBias = kCount };
};

struct CausalConvRequest {
  int64_t tokens, channels, taps, slots;
  bool bias;
};

struct SelectiveScanInput {
  enum : int { kX, kDt, kA, kB, kC, kState, kSequence, kPositions, kSlots, kCount };
};

struct SelectiveScanRequest {
  int64_t tokens, heads, rows, groups, states, slots;  // T, H, P, G, N
  bool one_decay;                                      // a is [H, 1]
};

struct DeltaRuleInput {
  enum : int { kQ, kK, kV, kDecay, kBeta, kState, kSequence, kPositions, kSlots, kCount };
};

struct DeltaRuleRequest {
  int64_t tokens, heads, rows, groups, states, slots;  // T, H, P, G, N
};

// Nothing where shapes, dtypes or layouts are others: contiguous f32, and i32 indices.
std::optional<CausalConvRequest> read_causal_conv(const KernelRequest& request);
std::optional<SelectiveScanRequest> read_selective_scan(const KernelRequest& request);
std::optional<DeltaRuleRequest> read_gated_delta_rule(const KernelRequest& request);

}  // namespace gabbro::abi
