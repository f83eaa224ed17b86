// Arguments of attention over f16 and bf16 tensors: softmax(q·kᵀ·scale + mask)·v.
#pragma once

#include "kernels/attention/attention_merge.h"

namespace gabbro::gpu {

// f16 or bf16 [B, heads, rows, D] with strides in elements; the last axis is contiguous.
struct StridedHeads {
  const void* data;
  i64 batch;
  i64 head;
  i64 row;
};

// Meaning of a mask: whether a key is attended to, or a summand of its score.
enum class MaskType : i32 { kNone, kBool, kFloat, kHalf, kBFloat };

// [B, H, L, S]; strides in elements, 0 where it has one for all.
struct AttentionMask {
  const void* data;
  MaskType type;
  i64 batch;
  i64 head;
  i64 row;
  i64 key;
};

// Grid (B·H, L in parts of the block's rows, splits). With several splits a second launch (AttentionMergeArgs) follows.
struct DenseAttentionArgs {
  StridedHeads q;
  StridedHeads k;  // G heads: query head h reads head h / group
  StridedHeads v;
  AttentionMask mask;
  void* y;          // [B, H, L, D], or [B, L, H, D]
  float* partials;  // with splits > 1: [rows of y, splits, partial_floats(D)]
  i32 heads;        // H
  i32 group;        // H / G
  i32 queries;      // L
  i32 keys;         // S
  i32 dim;          // D
  i32 causal;       // query l sees keys 0 .. l
  i32 loose;        // D is not a multiple of 8, or not all rows of q, k and v begin at multiples of 16 bytes
  i32 splits;       // that the keys are dealt out to
  i32 rows_first;   // y is [B, L, H, D]
  float scale;      // over 0
};
inline constexpr int kDenseRows = 128, kWideDenseRows = 64;  // of a block; the latter where D > 128
inline constexpr int kMaxDenseDim = 256;

// Kernels of kernels/attention/attention_together.cc for heads of up to `dim` elements: X(dim, keys of a tile, threads,
// blocks of a multiprocessor, time). Four waves have 64 rows. The time is that of as many blocks as the device holds at
// a time, for each key in nanoseconds (H200).
#define GABBRO_TOGETHER_TILES(X) \
  X(48, 64, 256, 2, 23.2f)       \
  X(48, 80, 256, 2, 24.4f)       \
  X(64, 48, 256, 2, 25.5f)       \
  X(64, 64, 384, 1, 22.0f)       \
  X(64, 80, 256, 2, 29.3f)       \
  X(80, 64, 256, 1, 28.2f) X(80, 80, 256, 1, 30.8f) X(160, 64, 128, 1, 59.8f) X(160, 80, 128, 1, 50.0f)

}  // namespace gabbro::gpu
