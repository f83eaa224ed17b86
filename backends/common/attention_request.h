// Positions of the inputs of ops of the attention family (docs/fused_ops.md). Scales are inputs with i8 caches alone:
// kCount inputs without, kScaledCount with them.
#pragma once

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

}  // namespace gabbro::abi
