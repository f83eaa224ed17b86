// Attention over f16 or bf16 tensors without masks by products of four waves together (Hopper): see
// kernels/attention/attention_dense.cc. Products read queries, keys and values from the block's memory in vectors of
// eight elements of D: the first vectors of all rows, then the second ones. The scores of the next tile of keys are
// multiplied while this one's weights meet their values (FlashAttention-3, Shah et al. 2024).
#include "kernels/attention/dense_rows.h"

#ifdef GABBRO_TOGETHER
namespace gabbro::gpu::GABBRO_GPU {

// Slots of tiles: the next tile's keys are read while a later tile arrives, and values of this tile too.
inline constexpr int kKeySlots = 2, kValueSlots = 3;
template <int dim, int threads, int keys>
using TogetherRows = RowLayout<dim, threads / 2, threads, keys, true>;

template <class L>
struct TogetherMemory {
  alignas(128) Half queries[L::kRows * L::kDim];
  alignas(128) Half keys[kKeySlots][L::kTileKeys * L::kDim];
  alignas(128) Half values[kValueSlots][L::kTileKeys * L::kDim];
};

// Copies `count` rows from row `first` on. Eight lanes have eight rows, which are neighbors in the block's memory, and
// a wave has four neighboring vectors of them.
template <class L, int count, class Copy>
GPU_INLINE inline void copy_rows_together(const HeadRows& rows, i32 first, Copy& copies, Half* to) {
  constexpr i32 kVectors = L::kDim / 8, kAll = count * kVectors;
#pragma unroll
  for (i32 i = 0; i < (kAll + L::kThreads - 1) / L::kThreads; ++i) {
    const i32 index = i * L::kThreads + static_cast<i32>(thread_index());
    if (kAll % L::kThreads != 0 && index >= kAll) break;
    const i32 row = index % 8 + index / (8 * kVectors) * 8, vector = index / 8 % kVectors;
    rows.begin_aligned(copies, i, to + static_cast<u32>(vector * count + row) * 8, first + row, vector * 8);
  }
}

// Scores of keys from number `count` of the tile on become the smallest of all.
template <class L>
GPU_FUNCTION inline void hide_from(i32 count, typename L::Scores& scores) {
  const i32 own = count - static_cast<i32>(column_of(0));
#pragma unroll
  for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      if (k * static_cast<int>(kTile) + i / 4 * 8 + i % 2 >= own) scores[0][k].value[i] = 2 * kNoMaximum;
    }
  }
}

// Results of the wave's rows, which pass through its queries' memory: eight lanes store neighbors of eight rows, and a
// wave four neighboring vectors of them. Called after the block's last products; y is [.., D] of whole vectors.
template <class T, class L>
GPU_FUNCTION inline void store_rows_together(const DenseAttentionArgs& a, const ResultRows& to, Half* queries,
                                             QueryRows<L>& rows) {
  float inverse[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) {
    const float sum = row_sum(rows.sum[0][slot]);
    inverse[slot] = sum != 0 ? 1 / sum : 0;
  }
  const u32 wave_row = wave_index() * kTile, row = wave_row + lane() / 4, element = lane() % 4 * 2;
#pragma unroll
  for (int d = 0; d < L::kDimTiles; ++d) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; i += 2) {
      const float* const pair = rows.output[0][d].value + i;
      const u32 vector = static_cast<u32>(d * 2 + i / 4), slot = static_cast<u32>(row_slot(i));
      *reinterpret_cast<u32*>(queries + (vector * L::kRows + row + slot * 8) * 8 + element) =
          pack<T>(pair[0] * inverse[slot], pair[1] * inverse[slot]);
    }
  }
  wave_barrier();
  T* const y = static_cast<T*>(a.y) + to.first * a.dim;
  const i64 row_elements = static_cast<i64>(to.step) * a.dim;
#pragma unroll
  for (u32 half = 0; half < kTile; half += 8) {
    const u32 own = wave_row + half + lane() % 8;
    if (static_cast<i32>(own) >= to.count) continue;
#pragma unroll
    for (u32 vector = lane() / 8; vector < L::kDim / 8; vector += 4) {
      if (static_cast<i32>(vector * 8) >= a.dim) break;
      store_vec16(y + own * row_elements + vector * 8, load_vec16(queries + (vector * L::kRows + own) * 8));
    }
  }
}

// Four waves' rows and their products.
template <class T, class L>
class RowsTogether {
 public:
  typename L::Scores scores;
  QueryRows<L> rows;

  GPU_INLINE explicit RowsTogether(const TogetherMemory<L>& memory)
      : rows(memory.queries), memory_(memory), queries_(memory.queries + wave_index() / 4 * (64 * 8)) {}

  // The scores of a tile, until end_keys().
  GPU_INLINE void begin_keys(i32 tile) {
    const Half* const keys = memory_.keys[tile % kKeySlots];
#pragma unroll
    for (int d = 0; d < L::kDimTiles; ++d)
      RowsProduct<T, L::kTileKeys>::multiply(together_columns<L::kRows>(queries_ + d * 2 * L::kRows * 8),
                                             together_columns<L::kTileKeys>(keys + d * 2 * L::kTileKeys * 8), d > 0,
                                             scores[0][0].value);
    sent_together();
  }
  // `later`: groups of products that began after it.
  template <int later>
  GPU_INLINE void end_keys() {
    done_together<later>();
    settle_together<L::kTileKeys / 2>(scores[0][0].value);
  }
  // Adds weights · values of a tile to the outputs, until end_values().
  GPU_INLINE void begin_values(i32 tile) {
    const Half* const values = memory_.values[tile % kValueSlots];
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k)
      WideProduct<T, L::kDim>::add_transposed(
          weights_[k], transposed_together_columns<L::kTileKeys>(values + k * static_cast<int>(kTile) * 8),
          rows.output[0][0].value);
    sent_together();
  }
  // `scores` are computed before it waits.
  GPU_INLINE void end_values() {
    settle_together<L::kTileKeys / 2>(scores[0][0].value);
    done_together<0>();
    settle_together<L::kDim / 2>(rows.output[0][0].value);
  }
  GPU_INLINE void take_weights() {
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) weights_[k] = to_fragment<T>(scores[0][k]);
  }

 private:
  const TogetherMemory<L>& memory_;
  const Half* const queries_;
  Fragment weights_[L::kKeyTiles];
};

// The tiles of keys and values of a block's split.
template <class L>
class TilesTogether {
 public:
  GPU_INLINE TilesTogether(const DenseAttentionArgs& a, i32 batch, i32 head, TogetherMemory<L>& memory)
      : keys_(a.k, batch, head, a.keys, a), values_(a.v, batch, head, a.keys, a), memory_(memory) {
    const i32 share = ((a.keys + L::kTileKeys - 1) / L::kTileKeys + a.splits - 1) / a.splits;
    begin_ = static_cast<i32>(block_index().z) * share * L::kTileKeys;
    left_ = a.keys - begin_;
    count_ = min_of(share, (left_ + L::kTileKeys - 1) / L::kTileKeys);
  }

  GPU_INLINE i32 count() const { return count_; }
  // Copies a tile, if there is one.
  GPU_INLINE void begin(i32 tile, TileCopy<1>& copies) const {
    const i32 key = begin_ + tile * L::kTileKeys;
    if (tile < count_) {
      copy_rows_together<L, L::kTileKeys>(keys_, key, copies, memory_.keys[tile % kKeySlots]);
      copy_rows_together<L, L::kTileKeys>(values_, key, copies, memory_.values[tile % kValueSlots]);
    }
    copies.sent();
  }
  GPU_INLINE void hide_missing(i32 tile, typename L::Scores& scores) const {
    const i32 left = left_ - tile * L::kTileKeys;
    if (left < L::kTileKeys) hide_from<L>(left, scores);
  }

 private:
  const HeadRows keys_, values_;
  TogetherMemory<L>& memory_;
  i32 begin_, left_, count_;
};

// Computes weights of tile + 1 while the weights of `tile` meet their values. `factor` times a score is a logarithm to
// the base 2.
template <class T, class L>
GPU_INLINE inline void attend_next(const TilesTogether<L>& tiles, i32 tile, float factor, RowsTogether<T, L>& r) {
  begin_together();
  r.begin_keys(tile + 1);
  r.begin_values(tile);
  r.template end_keys<1>();
  tiles.hide_missing(tile + 1, r.scores);
  float shrink[kRowSlots];
  if (begin_softmax(r.rows, 0, factor, r.scores, shrink)) {
    // Two branches: the compiler moves a wait to the beginning of its basic block, ahead of the exponentials.
    r.end_values();
    shrink_outputs(r.rows, 0, shrink);
  } else {
    keep_branch();
    r.end_values();
  }
  r.take_weights();
}

template <class T, class L>
GPU_FUNCTION inline void attention_together(const DenseAttentionArgs& a) {
  auto& memory = block_memory<TogetherMemory<L>>();
  const i32 batch = static_cast<i32>(block_index().x) / a.heads, head = static_cast<i32>(block_index().x) % a.heads;
  const i32 first = static_cast<i32>(block_index().y) * L::kRows;
  const TilesTogether<L> tiles(a, batch, head / a.group, memory);
  TileCopy<1> copies;
  RowsTogether<T, L> r(memory);
  const float factor = a.scale * kLog2E;
  if (tiles.count() > 0) {
    copy_rows_together<L, L::kRows>(HeadRows(a.q, batch, head, a.queries, a), first, copies, memory.queries);
    tiles.begin(0, copies);
    tiles.begin(1, copies);
    copies.landed<1>();
    show_together();
    barrier();
    begin_together();
    r.begin_keys(0);
    r.template end_keys<0>();
    tiles.hide_missing(0, r.scores);
    apply_softmax(r.rows, factor, r.scores);
    r.take_weights();
    for (i32 tile = 0; tile + 1 < tiles.count(); ++tile) {
      copies.landed<0>();
      show_together();
      barrier();  // the next tile is there; products of the one before are done
      tiles.begin(tile + 2, copies);
      attend_next(tiles, tile, factor, r);
    }
    begin_together();
    r.begin_values(tiles.count() - 1);
    r.end_values();
  }
  const ResultRows to(a, batch, head, first);
  if (a.splits > 1) return store_rows<T>(a, to, factor, r.rows);
  barrier();  // products have read the queries
  store_rows_together<T>(a, to, memory.queries, r.rows);
}

template <class T, class L>
GPU_FUNCTION inline void attention_together_late(const DenseAttentionArgs& a) {
  wait_for_previous();
  attention_together<T, L>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ATTENTION_TOGETHER(suffix, T, dim, keys, threads, blocks)                                        \
  GPU_EARLY_BLOCKS_KERNEL(attention_together_##suffix##_##dim##_##keys, threads, blocks,                        \
                          gabbro::gpu::GABBRO_GPU::TogetherMemory<gabbro::gpu::GABBRO_GPU::Rows##dim##_##keys>, \
                          gabbro::gpu::DenseAttentionArgs,                                                      \
                          attention_together_late<gabbro::gpu::T, gabbro::gpu::GABBRO_GPU::Rows##dim##_##keys>)
#define GABBRO_OF_TILE(dim, keys, threads, blocks, time)           \
  namespace gabbro::gpu::GABBRO_GPU {                              \
  using Rows##dim##_##keys = TogetherRows<dim, threads, keys>;     \
  }                                                                \
  GABBRO_ATTENTION_TOGETHER(f16, Half, dim, keys, threads, blocks) \
  GABBRO_ATTENTION_TOGETHER(bf16, BFloat, dim, keys, threads, blocks)
GABBRO_TOGETHER_TILES(GABBRO_OF_TILE)
#endif
