// Rows of queries of attention on matrix cores (FlashAttention-2, Dao 2023): a block has some, and each wave has
// its own, with a running maximum and sum. They walk over tiles of keys and values in the block's memory; scores never
// leave the registers.
#pragma once

#include "kernels/attention/attention_scores.h"
#include "kernels/gpu/matrix.h"

namespace gabbro::gpu::GABBRO_GPU {

// How a block of `rows` queries of up to `dim` elements is laid out. With `queries_stay` they are read from the block's
// memory each time; else a wave keeps its own in registers.
template <int dim, int rows, int threads, int tile_keys, bool queries_stay>
struct RowLayout {
  static constexpr int kDim = dim, kRows = rows, kThreads = threads, kTileKeys = tile_keys;
  static constexpr bool kQueriesStay = queries_stay;
  static constexpr int kWaveRows = rows / (threads / static_cast<int>(kWave));
  static constexpr int kRowTiles = kWaveRows / static_cast<int>(kTile);
  static constexpr int kKeyTiles = tile_keys / static_cast<int>(kTile);
  static constexpr int kDimTiles = dim / static_cast<int>(kTile);
  // Pitch of the queries in elements: 16 bytes of padding spread eight rows over all banks.
  static constexpr u32 kQueryPitch = static_cast<u32>(dim) + 8;
  static constexpr u32 kQueryElements = rows * kQueryPitch;
  using Scores = Accumulator[kRowTiles][kKeyTiles];
};

// With waves of 32 lanes and copies through registers (RDNA), and on targets without matrix cores, whose fragments are
// large, a lane has no registers left for the scores of 64 keys.
inline constexpr int kRowTileKeys = (kWave == 32 && kRowSlots == 1) || sizeof(Fragment) > 16 ? 32 : 64;
// Two tiles of rows per wave halve its reads of the keys. With lanes of mma.sync the queries do not fit in registers
// next to outputs and scores, and stay in the block's memory.
inline constexpr bool kQueriesOfPairsStay = kWave == 32 && kRowSlots == 2;
template <int dim>
using ManyRows = RowLayout<dim, 128, kQueriesOfPairsStay ? 128 : 256, kRowTileKeys, kQueriesOfPairsStay>;

// A wave's rows: what is known of their scores, and their outputs.
template <class Layout>
class QueryRows {
 public:
  using L = Layout;
  Accumulator output[L::kRowTiles][L::kDimTiles];
  float maximum[L::kRowTiles][kRowSlots];
  float sum[L::kRowTiles][kRowSlots];  // this lane's share

  // From the block's memory, where they stay if L::kQueriesStay.
  GPU_FUNCTION explicit QueryRows(const Half* queries)
      : memory_(queries + wave_index() * L::kWaveRows * L::kQueryPitch) {
#pragma unroll
    for (int r = 0; r < L::kRowTiles; ++r) {
#pragma unroll
      for (int slot = 0; slot < kRowSlots; ++slot) {
        maximum[r][slot] = kNoMaximum;
        sum[r][slot] = 0;
      }
      if constexpr (!L::kQueriesStay) {
#pragma unroll
        for (int d = 0; d < L::kDimTiles; ++d) kept_[r][d] = load(r, d);
      }
    }
  }
  GPU_FUNCTION Fragment query(int r, int d) const {
    if constexpr (L::kQueriesStay) {
      const Fragment query = load(r, d);
      hold_loads();
      return query;
    }
    return kept_[r][d];
  }
  // Row within the block of sum i of row tile r.
  GPU_FUNCTION static i32 row(int r, int i) {
    return static_cast<i32>(wave_index()) * L::kWaveRows + r * static_cast<i32>(kTile) + static_cast<i32>(row_of(i));
  }

 private:
  GPU_FUNCTION Fragment load(int r, int d) const {
    return load_fragment(memory_ + static_cast<u32>(r) * kTile * L::kQueryPitch + d * kTile, L::kQueryPitch);
  }

  const Half* memory_;
  Fragment kept_[L::kQueriesStay ? 1 : L::kRowTiles][L::kQueriesStay ? 1 : L::kDimTiles];
};

// scores = q·kᵀ for a tile of keys, which `Keys` knows how to load columns from.
template <class T, class Keys, class L>
GPU_FUNCTION inline void multiply_keys(const QueryRows<L>& rows, const Half* keys, typename L::Scores& scores) {
#pragma unroll
  for (int d = 0; d < L::kDimTiles; ++d) {
    Fragment query[L::kRowTiles];
#pragma unroll
    for (int r = 0; r < L::kRowTiles; ++r) query[r] = rows.query(r, d);
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) {
      const Columns key = Keys::load(keys, d * kTile, k * kTile);
#pragma unroll
      for (int r = 0; r < L::kRowTiles; ++r) multiply<T>(query[r], key, scores[r][k]);
    }
  }
}

// Scores of row tile r become weights relative to the rows' new maxima; the sums are made to match, and outputs will by
// `shrink`. `factor` times a score is a logarithm to the base 2. Whether `shrink` changes outputs of the wave.
template <class L>
GPU_FUNCTION inline bool begin_softmax(QueryRows<L>& rows, int r, float factor, typename L::Scores& scores,
                                       float (&shrink)[kRowSlots]) {
  float highest[kRowSlots], minus[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) highest[slot] = rows.maximum[r][slot];
#pragma unroll
  for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      highest[row_slot(i)] = quick_max(highest[row_slot(i)], scores[r][k].value[i]);
    }
  }
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) {
    highest[slot] = row_max(highest[slot]);
    minus[slot] = -highest[slot] * factor;
    shrink[slot] = quick_exp2((rows.maximum[r][slot] - highest[slot]) * factor);
    rows.maximum[r][slot] = highest[slot];
    rows.sum[r][slot] *= shrink[slot];
  }
#pragma unroll
  for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      float& weight = scores[r][k].value[i];
      weight = quick_exp2(fma(weight, factor, minus[row_slot(i)]));  // 0 where there is no key
      rows.sum[r][row_slot(i)] += weight;
    }
  }
  bool higher = false;
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) higher = higher || shrink[slot] != 1;
  return wave_any(higher);  // less and less often, as maxima settle
}

template <class L>
GPU_FUNCTION inline void shrink_outputs(QueryRows<L>& rows, int r, const float (&shrink)[kRowSlots]) {
#pragma unroll
  for (int d = 0; d < L::kDimTiles; ++d) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) rows.output[r][d].value[i] *= shrink[row_slot(i)];
  }
}

// Scores become weights; outputs and sums are made to match.
template <class L>
GPU_FUNCTION inline void apply_softmax(QueryRows<L>& rows, float factor, typename L::Scores& scores) {
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
    float shrink[kRowSlots];
    if (begin_softmax(rows, r, factor, scores, shrink)) shrink_outputs(rows, r, shrink);
  }
}

// outputs += weights · values.
template <class T, class Values, class L>
GPU_FUNCTION inline void multiply_values(QueryRows<L>& rows, const Half* values, const typename L::Scores& weights) {
#pragma unroll
  for (int k = 0; k < L::kKeyTiles; ++k) {
    Fragment weight[L::kRowTiles];
#pragma unroll
    for (int r = 0; r < L::kRowTiles; ++r) weight[r] = to_fragment<T>(weights[r][k]);
#pragma unroll
    for (int d = 0; d < L::kDimTiles; ++d) {
      const Columns value = Values::load(values, k * kTile, d * kTile);
#pragma unroll
      for (int r = 0; r < L::kRowTiles; ++r) multiply<T>(weight[r], value, rows.output[r][d]);
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
