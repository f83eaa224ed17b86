// Arguments of `causal_conv`, `selective_scan` and `gated_delta_rule` (docs/design/fused_ops.md): recurrences over the
// tokens of sequences. The block of a sequence's first token in the step processes all of the sequence's tokens; other
// blocks return at once.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// Places of the states of the tokens' sequences are.
struct TokenSlots {
  const i32* sequence;   // [T]
  const i32* positions;  // [T]
  const i32* slots;      // [B]
  i32 sequences;         // B
  i32 count;             // of slots of the states
  i32 tokens;            // T
};

inline constexpr u32 kConvThreads = 128;  // a channel each
inline constexpr int kMostTaps = 8;

// Grid (channels in parts of kConvThreads, T).
struct CausalConvArgs {
  const float* x;       // [T, C]
  const float* weight;  // [C, K]
  const float* bias;    // [C] or null
  float* state;         // [slots, C, K - 1]
  float* y;             // [T, C]
  TokenSlots places;
  i32 channels;
  i32 taps;
};

inline constexpr u32 kScanBlockThreads = 128;
inline constexpr int kLaneStates = 16;  // of a row's N, that a lane holds in registers
constexpr i32 scan_lanes(i64 states) {  // that have a row together
  i32 lanes = 1;
  while (lanes * kLaneStates < states) lanes *= 2;
  return lanes;
}
inline constexpr i64 kMostStates = 32 * kLaneStates;

// Grid (H·P rows in parts of kScanBlockThreads / lanes, T).
struct SelectiveScanArgs {
  const float* x;   // [T, H, P]
  const float* dt;  // [T, H]
  const float* a;   // [H, N], or [H] with one_decay
  const float* b;   // [T, G, N]
  const float* c;   // [T, G, N]
  float* state;     // [slots, H, P, N]
  float* y;         // [T, H, P]
  TokenSlots places;
  i32 heads, rows, groups, states;  // H, P, G, N
  i32 lanes;
  i32 one_decay;
};

// Grid as of SelectiveScanArgs.
struct DeltaRuleArgs {
  const float* q;      // [T, G, N]
  const float* k;      // [T, G, N]
  const float* v;      // [T, H, P]
  const float* decay;  // [T, H]
  const float* beta;   // [T, H]
  float* state;        // [slots, H, P, N]
  float* y;            // [T, H, P]
  TokenSlots places;
  i32 heads, rows, groups, states;  // H, P, G, N
  i32 lanes;
};

}  // namespace gabbro::gpu
