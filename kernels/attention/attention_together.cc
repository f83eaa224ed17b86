// Attention over f16 or bf16 tensors without masks by products of four waves together (Hopper): see
// kernels/attention/attention_dense.cc. A block has 128 queries. Products read them, keys and values from its memory in
// vectors of eight elements of D: the first vectors of all rows, then the second ones.
#include "kernels/attention/dense_rows.h"

#ifdef GABBRO_TOGETHER
namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kTogetherThreads = 256, kTogetherKeys = 64;
inline constexpr int kTogetherSlots = 3;  // of the tiles that come, are read now, and may still be read
template <int dim>
using TogetherRows = RowLayout<dim, kDenseRows, kTogetherThreads, kTogetherKeys, true>;

template <int dim>
struct TogetherMemory {
  alignas(128) Half queries[kDenseRows * dim];
  alignas(128) Half keys[kTogetherSlots][kTogetherKeys * dim];
  alignas(128) Half values[kTogetherSlots][kTogetherKeys * dim];
};

// Copies `count` rows from row `first` on. Eight lanes have eight rows, which are neighbors in the block's memory, and
// a wave has four neighboring vectors of them.
template <int count, int dim, class Copy>
GPU_INLINE inline void copy_rows_together(const HeadRows& rows, i32 first, Copy& copies, Half* to) {
  constexpr i32 kVectors = dim / 8, kAll = count * kVectors;
#pragma unroll
  for (i32 i = 0; i < (kAll + kTogetherThreads - 1) / kTogetherThreads; ++i) {
    const i32 index = i * kTogetherThreads + static_cast<i32>(thread_index());
    if (kAll % kTogetherThreads != 0 && index >= kAll) break;
    const i32 row = index % 8 + index / (8 * kVectors) * 8, vector = index / 8 % kVectors;
    rows.begin(copies, 0, to + static_cast<u32>(vector * count + row) * 8, first + row, vector * 8);
  }
}

template <class T, int dim>
GPU_FUNCTION inline void attention_together(const DenseAttentionArgs& a) {
  using L = TogetherRows<dim>;
  auto& memory = block_memory<TogetherMemory<dim>>();
  const i32 batch = static_cast<i32>(block_index().x) / a.heads, head = static_cast<i32>(block_index().x) % a.heads;
  const i32 first = static_cast<i32>(block_index().y) * L::kRows, kv_head = head / a.group;
  const HeadRows key_rows(a.k, batch, kv_head, a.keys, a), value_rows(a.v, batch, kv_head, a.keys, a);
  const i32 share = ((a.keys + kTogetherKeys - 1) / kTogetherKeys + a.splits - 1) / a.splits * kTogetherKeys;
  const i32 begin = static_cast<i32>(block_index().z) * share, end = min_of(a.keys, begin + share);
  TileCopy<1> copies;
  const auto begin_tile = [&](i32 key, i32 tile) {
    copy_rows_together<kTogetherKeys, dim>(key_rows, key, copies, memory.keys[tile % kTogetherSlots]);
    copy_rows_together<kTogetherKeys, dim>(value_rows, key, copies, memory.values[tile % kTogetherSlots]);
    copies.sent();
  };
  copy_rows_together<kDenseRows, dim>(HeadRows(a.q, batch, head, a.queries, a), first, copies, memory.queries);
  begin_tile(begin, 0);
  QueryRows<L> rows(memory.queries);
  const Half* const queries = memory.queries + wave_index() / 4 * (64 * 8);
  const float factor = a.scale * kLog2E;
  i32 tile = 0;
  for (i32 key = begin; key < end; key += kTogetherKeys, ++tile) {
    copies.landed<0>();
    show_together();
    barrier();  // the tile is there; products of the last but one are done
    if (key + kTogetherKeys < end) begin_tile(key + kTogetherKeys, tile + 1);
    typename L::Scores scores;
    const Half* const keys = memory.keys[tile % kTogetherSlots];
    begin_together();
#pragma unroll
    for (int d = 0; d < L::kDimTiles; ++d)
      multiply_rows_together<T>(together_columns<kDenseRows>(queries + d * 2 * kDenseRows * 8),
                                together_columns<kTogetherKeys>(keys + d * 2 * kTogetherKeys * 8), d > 0,
                                scores[0][0].value);
    sent_together();
    done_together<0>();
    settle_together<kTogetherKeys / 2>(scores[0][0].value);
    settle_together<dim / 2>(rows.output[0][0].value);
    if (key + kTogetherKeys > a.keys) hide<L>(a, first, key, scores);
    apply_softmax(rows, factor, scores);
    Fragment weights[L::kKeyTiles];
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) weights[k] = to_fragment<T>(scores[0][k]);
    begin_together();
    const Half* const values = memory.values[tile % kTogetherSlots];
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k)
      WideProduct<T, dim>::add_transposed(
          weights[k], transposed_together_columns<kTogetherKeys>(values + k * static_cast<int>(kTile) * 8),
          rows.output[0][0].value);
    sent_together();
  }
  done_together<0>();
  settle_together<dim / 2>(rows.output[0][0].value);
  store_rows<T>(a, ResultRows(a, batch, head, first), factor, rows);
}

template <class T, int dim>
GPU_FUNCTION inline void attention_together_late(const DenseAttentionArgs& a) {
  wait_for_previous();
  attention_together<T, dim>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ATTENTION_TOGETHER(suffix, T, dim)                                                            \
  GPU_EARLY_BLOCKS_KERNEL(attention_together_##suffix##_##dim, gabbro::gpu::GABBRO_GPU::kTogetherThreads, 2, \
                          gabbro::gpu::GABBRO_GPU::TogetherMemory<dim>, gabbro::gpu::DenseAttentionArgs,     \
                          attention_together_late<gabbro::gpu::T, dim>)
GABBRO_ATTENTION_TOGETHER(f16, Half, 48)
GABBRO_ATTENTION_TOGETHER(f16, Half, 64)
GABBRO_ATTENTION_TOGETHER(f16, Half, 80)
GABBRO_ATTENTION_TOGETHER(bf16, BFloat, 48)
GABBRO_ATTENTION_TOGETHER(bf16, BFloat, 64)
GABBRO_ATTENTION_TOGETHER(bf16, BFloat, 80)
#endif
