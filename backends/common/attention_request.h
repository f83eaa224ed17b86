// Positions of the inputs of ops of the attention family (docs/design/fused_ops.md). Scales are inputs with i8 caches
// alone: kCount inputs without, kScaledCount with them.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

struct RopeInput {
  enum : int { kX, kPositions, kFrequencies, kCount };
};

struct KvWriteInput {
  enum : int { kCache, kX, kPageTable, kSequence, kPositions, kCount, kScale = kCount, kScaledCount };
};

struct AttentionInput {
  enum : int {
    kQ,
    kKeys,
    kValues,
    kPageTable,
    kSequence,
    kPositions,
    kCount,
    kKeyScale = kCount,
    kValueScale,
    kScaledCount
  };

  // With the attribute `sinks` they are one input more, the last.
  static bool has_sinks(const KernelRequest& request) { return integer_attribute(request, "sinks", 0) != 0; }
  static bool is_scaled(const KernelRequest& request) {
    return request.input_count == kScaledCount + (has_sinks(request) ? 1 : 0);
  }
};

// Inputs of rope_kv_write and of attention_step.
struct RopeKvInput {
  enum : int {
    kQ,
    kK,
    kV,
    kPositions,
    kFrequencies,
    kKeys,
    kValues,
    kPageTable,
    kSequence,
    kCount,
    kKeyScale = kCount,
    kValueScale,
    kScaledCount
  };
};

// Whether the outputs of rope_kv_write or attention_step, but the first, are the caches and their scales.
inline bool writes_kv(const KernelRequest& request, bool scaled) {
  using In = RopeKvInput;
  return scaled ? has_aliases(request, 1, {In::kKeys, In::kValues, In::kKeyScale, In::kValueScale})
                : has_aliases(request, 1, {In::kKeys, In::kValues});
}

}  // namespace gabbro::abi
