// Attention over f16 or bf16 tensors on matrix cores (FlashAttention-2, Dao 2023): a block takes rows of queries of one
// head and walks over its keys in tiles; see kernels/attention/attention_rows.h.
#include "kernels/attention/dense_rows.h"

namespace gabbro::gpu::GABBRO_GPU {

// Long rows leave registers for few scores, and room for few keys.
template <int dim>
struct LayoutOf {
  using Type = ManyRows<dim>;
};
template <>
struct LayoutOf<256> {
  using Type = RowLayout<256, kWideDenseRows, kWideDenseRows / 16 * kWave, kCopiesPassRegisters ? 32 : 16, true>;
};
template <int dim>
using Layout = typename LayoutOf<dim>::Type;

template <int dim>
struct BlockMemory {
  using L = Layout<dim>;
  using Keys = ColumnTile<dim, L::kTileKeys>;
  using Values = TransposedTile<L::kTileKeys, dim>;
  // The next keys come while some are worked on; where copies wait in registers they need no place before.
  static constexpr int kKeySlots = kCopiesPassRegisters ? 2 : 1;
  static constexpr u32 kTileElements = kKeySlots * Keys::kElements + Values::kElements;
  static constexpr u32 kElements = L::kQueriesStay                     ? kTileElements + L::kQueryElements
                                   : kTileElements > L::kQueryElements ? kTileElements
                                                                       : L::kQueryElements;
  alignas(16) Half elements[kElements];

  GPU_FUNCTION Half* keys(i32 tile) { return elements + tile % kKeySlots * Keys::kElements; }
  GPU_FUNCTION Half* values() { return elements + kKeySlots * Keys::kElements; }
  GPU_FUNCTION Half* queries() { return elements + (L::kQueriesStay ? kTileElements : 0); }
};

// Brings tiles of keys and their values into the block's memory, by all its threads.
template <int dim>
class TensorTiles {
 public:
  using Memory = BlockMemory<dim>;
  using L = Layout<dim>;

  GPU_INLINE TensorTiles(const HeadRows& keys, const HeadRows& values) : key_rows_(keys), value_rows_(values) {}

  GPU_INLINE void begin_keys(i32 base, Half* tile) {
    const i32 d = first_d(), first = static_cast<i32>(thread_index()) / kRowVectors;
    copy(keys_, key_rows_, base + first, kRows, d,
         tile + Memory::Keys::place(static_cast<u32>(d), static_cast<u32>(first)), kRows * Memory::Keys::kPitch);
  }
  GPU_INLINE void begin_values(i32 base, Half* tile) {
    const i32 d = first_d(),
              first = Memory::Values::first_row(static_cast<i32>(thread_index()) / kRowVectors, kVectors);
    constexpr i32 kStep = Memory::Values::row_step(kRows);
    // If copies transpose the tile, the first vector's index places all of a thread's vectors.
    copy(values_, value_rows_, base + first, kStep, d,
         tile + Memory::Values::place(static_cast<u32>(first), static_cast<u32>(d)),
         kLoadsTranspose ? kStep * Memory::Values::kPitch : 0);
  }
  // See CacheTiles.
  template <int later>
  GPU_INLINE void end_keys() {
    keys_.template landed<later>();
  }
  template <int later>
  GPU_INLINE void end_values() {
    values_.template landed<later>();
  }
  GPU_INLINE void begin_none() { keys_.sent(); }

 private:
  static constexpr int kRowVectors = dim / 8, kRows = L::kThreads / kRowVectors;  // that are copied together
  static constexpr int kVectors = L::kTileKeys / kRows;

  GPU_INLINE static i32 first_d() { return static_cast<i32>(thread_index()) % kRowVectors * 8; }
  template <class Copy>
  GPU_INLINE static void copy(Copy& copies, const HeadRows& rows, i32 first, i32 step, i32 d, Half* to, u32 to_step) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) rows.begin(copies, i, to + static_cast<u32>(i) * to_step, first + i * step, d);
    copies.sent();
  }

  HeadRows key_rows_, value_rows_;
  TileCopy<kVectors> keys_;
  typename Memory::Values::template Copy<kVectors> values_;
};

// The block's queries, from row `first` on, into its memory.
template <int dim>
GPU_FUNCTION inline void load_queries(const HeadRows& q, i32 first, Half* queries) {
  using L = Layout<dim>;
  constexpr int kRowVectors = dim / 8, kRows = L::kThreads / kRowVectors;
  const i32 d = static_cast<i32>(thread_index()) % kRowVectors * 8;
#pragma unroll 4
  for (i32 row = static_cast<i32>(thread_index()) / kRowVectors; row < L::kRows; row += kRows) {
    store_vec16(queries + static_cast<u32>(row) * L::kQueryPitch + d, q.load(first + row, d));
  }
}

GPU_FUNCTION inline float masked(const AttentionMask& mask, i64 place, float score) {
  switch (mask.type) {
    case MaskType::kBool:
      return static_cast<const u8*>(mask.data)[place] != 0 ? score : 2 * kNoMaximum;
    case MaskType::kFloat:
      return fma(static_cast<const float*>(mask.data)[place], kLog2E, score);
    case MaskType::kHalf:
      return fma(to_float(static_cast<const Half*>(mask.data)[place]), kLog2E, score);
    case MaskType::kBFloat:
      return fma(to_float(static_cast<const BFloat*>(mask.data)[place]), kLog2E, score);
    default:
      return score;
  }
}

// Scores become logarithms to the base 2, with the mask of their keys.
template <class L>
GPU_FUNCTION inline void mask_scores(const DenseAttentionArgs& a, i64 head, i32 first, i32 base,
                                     typename L::Scores& scores) {
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 row = min_of(first + QueryRows<L>::row(r, i), a.queries - 1);
        const i32 key = base + k * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        float& score = scores[r][k].value[i];
        if (key < a.keys)
          score = masked(a.mask, head + row * a.mask.row + key * a.mask.key, score * (a.scale * kLog2E));
      }
    }
  }
}

template <class T, int dim>
GPU_FUNCTION inline void attention_dense(const DenseAttentionArgs& a) {
  using L = Layout<dim>;
  using Memory = BlockMemory<dim>;
  auto& memory = block_memory<Memory>();
  Half* const values = memory.values();
  const i32 batch = static_cast<i32>(block_index().x) / a.heads, head = static_cast<i32>(block_index().x) % a.heads;
  // Later rows have more keys where they are causal: they come first, of all heads.
  const i32 first = static_cast<i32>(grid_size().y - 1 - block_index().y) * L::kRows;
  load_queries<dim>(HeadRows(a.q, batch, head, a.queries, a), first, memory.queries());
  barrier();
  QueryRows<L> rows(memory.queries());
  if constexpr (!L::kQueriesStay) barrier();  // the last reads of the queries are done
  const i32 kv_head = head / a.group;
  TensorTiles<dim> tiles(HeadRows(a.k, batch, kv_head, a.keys, a), HeadRows(a.v, batch, kv_head, a.keys, a));

  const i32 all = a.causal != 0 ? min_of(a.keys, first + L::kRows) : a.keys;
  const i32 share = ((all + L::kTileKeys - 1) / L::kTileKeys + a.splits - 1) / a.splits * L::kTileKeys;
  const i32 begin = static_cast<i32>(block_index().z) * share, end = min_of(all, begin + share);
  // Up to here every row sees every key.
  const i32 seen = a.causal != 0 ? min_of(a.keys, first + 1) : a.keys;
  const bool has_mask = a.mask.type != MaskType::kNone;
  const i64 mask = batch * a.mask.batch + head * a.mask.head;
  const float factor = has_mask ? 1 : a.scale * kLog2E;
  if (begin < end) tiles.begin_keys(begin, memory.keys(0));
  i32 tile = 0;
  for (i32 key = begin; key < end; key += L::kTileKeys, ++tile) {
    tiles.template end_keys<0>();
    barrier();  // the keys have arrived; reads of the previous tiles are done
    tiles.begin_values(key, values);
    if (key + L::kTileKeys < end) {
      tiles.begin_keys(key + L::kTileKeys, memory.keys(tile + 1));
    } else {
      tiles.begin_none();
    }
    typename L::Scores scores;
    multiply_keys<T, typename Memory::Keys>(rows, memory.keys(tile), scores);
    if (has_mask) mask_scores<L>(a, mask, first, key, scores);
    if (key + L::kTileKeys > seen) hide<L>(a, first, key, scores);
    apply_softmax(rows, factor, scores);
    tiles.template end_values<1>();
    barrier();  // all values are there
    multiply_values<T, typename Memory::Values>(rows, values, scores);
  }
  store_rows<T>(a, ResultRows(a, batch, head, first), factor, rows);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ATTENTION_DENSE(suffix, T, dim)                                                        \
  GPU_MEMORY_KERNEL(attention_dense_##suffix##_##dim, gabbro::gpu::GABBRO_GPU::Layout<dim>::kThreads, \
                    gabbro::gpu::GABBRO_GPU::BlockMemory<dim>, gabbro::gpu::DenseAttentionArgs,       \
                    attention_dense<gabbro::gpu::T, dim>)

GABBRO_ATTENTION_DENSE(f16, Half, 64)
GABBRO_ATTENTION_DENSE(f16, Half, 128)
GABBRO_ATTENTION_DENSE(f16, Half, 256)
GABBRO_ATTENTION_DENSE(bf16, BFloat, 64)
GABBRO_ATTENTION_DENSE(bf16, BFloat, 128)
GABBRO_ATTENTION_DENSE(bf16, BFloat, 256)
GPU_KERNEL(attention_dense_merge_f16, 128, gabbro::gpu::AttentionMergeArgs, attention_merge<gabbro::gpu::Half>)
GPU_KERNEL(attention_dense_merge_bf16, 128, gabbro::gpu::AttentionMergeArgs, attention_merge<gabbro::gpu::BFloat>)
