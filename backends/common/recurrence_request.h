// Requests for `causal_conv` and `selective_scan` (docs/fused_ops.md), as backends read them.
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

// Nothing where shapes, dtypes or layouts are others: contiguous f32, and i32 indices.
std::optional<CausalConvRequest> read_causal_conv(const KernelRequest& request);
std::optional<SelectiveScanRequest> read_selective_scan(const KernelRequest& request);

}  // namespace gabbro::abi
