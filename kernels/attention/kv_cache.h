// Arguments of the kernels that write and read the paged KV cache (docs/design/fused_ops.md has its layout).
#pragma once

#include "kernels/attention/attention_merge.h"

namespace gabbro::gpu {

inline constexpr int kScaleGroup = 32;  // elements of D that share a scale in a cache of i8 or u4

// Elements of a cache. u4: two in a byte: the low four bits are element i of a group of 32 and the high ones
// element i + 16; a code is 8 more than the element divided by its scale.
enum class KvType : i32 { kF16, kI8, kF32, kBf16, kU4 };
constexpr bool has_scales(KvType type) { return type == KvType::kI8 || type == KvType::kU4; }
constexpr i32 kv_bits(KvType type) {
  return type == KvType::kF32 ? 32 : type == KvType::kI8 ? 8 : type == KvType::kU4 ? 4 : 16;
}
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kMaxValueDim = 1024;  // of a cache of values alone: latents

// One side of the cache: keys [pages, G, D, P] or values [pages, G, P, D]; with u4 D/2 bytes instead of D elements.
struct KvSide {
  void* data;
  Half* scale;  // null for types without
};

struct PageTable {
  const i32* pages;  // [sequences][columns]
  i32 sequences;
  i32 columns;
};

struct KvShape {
  i32 pages;
  i32 heads;  // G
  i32 dim;    // D
  i32 page;   // P, a power of two
  i32 page_bits;
};

// Activations [T, heads, D] with strides in elements.
struct HeadsView {
  const float* data;
  i32 heads;
  i64 token_stride;
  i64 head_stride;
};

struct RopeArgs {
  const float* inverse_frequencies;  // [half]; null: no rotation
  i32 half;
  i32 interleaved;
  float magnitude;
};

// rope, kv_write and both together: grid (T, heads of q + of k + of v in parts of heads_of_block).
struct RopeKvArgs {
  HeadsView q;  // rotated into `y`
  HeadsView k;  // rotated into the keys
  HeadsView v;  // written to the values
  float* y;     // [T][q.heads][D]
  RopeArgs rope;
  KvSide keys;
  KvSide values;
  KvShape kv;
  i32 dim;
  PageTable table;
  const i32* sequence;
  const i32* positions;
  i32 heads_of_block;
  i32 tokens;
  KvType type;  // of keys and values
};
inline constexpr int kKeyTokens = 32;  // of a block of rope_keys, grid (T in parts of it, G)
inline constexpr int kRopeThreads = 64;

// Heads that a block handles: where there are many tokens several, since the angles are the same for all of them.
constexpr i32 rope_heads_of_block(i64 tokens) { return tokens >= 256 ? 8 : tokens >= 64 ? 2 : 1; }

// Heads that share a KV head and that a block handles together when there are few tokens, and the parts that a group of
// them is cut into.
inline constexpr int kBlockHeads = 4;
inline constexpr int kMatrixHeads = 8;                          // on matrix cores
inline constexpr int kShareKeys = 128, kMatrixShareKeys = 128;  // of a share, or a multiple of it
inline constexpr int kMaxSplits = 64;
inline constexpr int kMaxCluster = 8;  // blocks
constexpr i32 decode_parts(i64 group, i64 block_heads) {
  return static_cast<i32>((group + block_heads - 1) / block_heads);
}

// Causal attention, grid (T, G·decode_parts(H/G), splits): where there are few blocks otherwise, the keys are dealt out
// to several; the last one merges their results.
struct AttentionArgs {
  HeadsView q;
  KvSide keys;
  KvSide values;
  KvShape kv;
  PageTable table;
  const i32* sequence;
  const i32* positions;
  float* y;         // [T][H][D]
  float* partials;  // with splits > 1: [T][H][splits][D + 2], see partial_floats()
  u32* arrived;     // with splits > 1: [T][grid.y], zeros, and zeros again at the end
  i32 splits;
  i32 group;       // heads that share a KV head,
  i32 parts;       // number of parts of a group,
  i32 part_heads;  // heads per part
  i32 window;
  i32 chunk;           // of positions that see each other; 0: all
  const float* sinks;  // [H] or null
  float scale;
  float softcap;
  i32 tokens;
  // Whether keys, values, table, sequence, positions and the frequencies of a rotation stay unchanged until the
  // launches ahead have ended: then they are read before that.
  bool settled;
};

// Many tokens, on matrix cores: grid (G, T in parts of kQueryRows / group, splits). A block's rows are its tokens'
// queries of the heads that share a KV head. With several splits a second launch (AttentionMergeArgs) follows.
inline constexpr int kQueryRows = 128;

// Tokens of separate sequences whose keys and values come with the launch.
struct AttentionStepArgs {
  AttentionArgs attention;  // q not yet rotated
  HeadsView k;              // nor k
  HeadsView v;
  RopeArgs rope;
};

}  // namespace gabbro::gpu
