// Causal attention of many tokens over the paged cache on matrix cores (FlashAttention-2, Dao 2023): a block takes some
// tokens and all query heads of one KV head, kQueryRows rows together, and walks over the keys in tiles. Each wave has
// rows of its own, with a running maximum and sum; scores never leave its registers.
#include "kernels/cache_tiles.h"

namespace gabbro::gpu::GABBRO_GPU {

// Where waves are of 32 lanes and there are no copies past the registers (RDNA), and on targets without matrix cores,
// whose fragments are large, a lane has no registers left for the scores of 64 keys.
inline constexpr int kTileKeys = (kWave == 32 && kRowSlots == 1) || sizeof(Fragment) > 16 ? 32 : 64;
// Two tiles of rows a wave halve what it reads of the keys. With lanes of mma.sync their queries find no registers
// beside outputs and scores, and stay in the block's memory.
inline constexpr bool kQueriesStay = kWave == 32 && kRowSlots == 2;
inline constexpr int kThreads = kQueriesStay ? 128 : 256;
inline constexpr int kWaveRows = kQueryRows / (kThreads / static_cast<int>(kWave));
inline constexpr int kRowTiles = kWaveRows / static_cast<int>(kTile);
inline constexpr int kKeyTiles = kTileKeys / static_cast<int>(kTile);
// From row to row of the queries, in halves: 16 bytes more, so that eight of them lie in all banks.
constexpr u32 query_pitch(int dim) { return static_cast<u32>(dim) + 8; }

// Which token and head a row of the block is.
struct RowPlace {
  i32 token;  // of the block's; -1: of none
  i32 head;
};

template <bool scaled, int dim>
struct BlockMemory {
  using Tiles = CacheTiles<scaled, dim, kTileKeys, kThreads>;
  // The next keys come while some are worked on; where copies wait in registers they need no place before.
  static constexpr int kKeySlots = kCopiesPassRegisters || scaled ? 2 : 1;
  static constexpr u32 kQueryHalves = kQueryRows * query_pitch(dim);
  static constexpr u32 kTileHalves = kKeySlots * Tiles::Keys::kHalves + Tiles::Values::kHalves;
  static constexpr u32 kHalves = kQueriesStay                 ? kTileHalves + kQueryHalves
                                 : kTileHalves > kQueryHalves ? kTileHalves
                                                              : kQueryHalves;
  alignas(16) Half halves[kHalves];
  RowPlace places[kQueryRows];
  KeyRange seen[kQueryRows];  // by each row

  GPU_FUNCTION Half* keys(i32 tile) { return halves + tile % kKeySlots * Tiles::Keys::kHalves; }
  GPU_FUNCTION Half* values() { return halves + kKeySlots * Tiles::Keys::kHalves; }
  GPU_FUNCTION Half* queries() { return halves + (kQueriesStay ? kTileHalves : 0); }
};

GPU_FUNCTION inline KeyRange keys_of_token(const AttentionArgs& a, i32 token) {
  const i32 position = a.positions[token];
  if (!in_table(a.table, a.kv, a.sequence[token], position)) return {0, 0};  // none: zeros
  return {a.window > 0 ? max_of(0, position + 1 - a.window) : 0, position + 1};
}

// A wave's rows: what is known of their scores, and their outputs.
template <int dim>
class QueryRows {
 public:
  static constexpr int kDimTiles = dim / static_cast<int>(kTile);
  Accumulator output[kRowTiles][kDimTiles];
  float maximum[kRowTiles][kRowSlots];
  float sum[kRowTiles][kRowSlots];  // this lane's share

  // From the block's memory, where they stay if kQueriesStay.
  GPU_FUNCTION explicit QueryRows(const Half* queries) : memory_(queries + wave_index() * kWaveRows * kPitch) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int slot = 0; slot < kRowSlots; ++slot) {
        maximum[r][slot] = kNoMaximum;
        sum[r][slot] = 0;
      }
      if constexpr (!kQueriesStay) {
#pragma unroll
        for (int d = 0; d < kDimTiles; ++d) kept_[r][d] = load(r, d);
      }
    }
  }
  GPU_FUNCTION Fragment query(int r, int d) const {
    if constexpr (kQueriesStay) return load(r, d);
    return kept_[r][d];
  }
  // Of the block, where sum i of row tile r stands.
  GPU_FUNCTION static i32 row(int r, int i) {
    return static_cast<i32>(wave_index()) * kWaveRows + r * static_cast<i32>(kTile) + static_cast<i32>(row_of(i));
  }

 private:
  static constexpr u32 kPitch = query_pitch(dim);
  GPU_FUNCTION Fragment load(int r, int d) const {
    return load_fragment(memory_ + static_cast<u32>(r) * kTile * kPitch + d * kTile, kPitch);
  }

  const Half* memory_;
  Fragment kept_[kQueriesStay ? 1 : kRowTiles][kQueriesStay ? 1 : kDimTiles];
};

// scores = q·kᵀ for a tile of keys.
template <int dim>
GPU_FUNCTION inline void multiply_keys(const QueryRows<dim>& rows, const Half* keys,
                                       Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int d = 0; d < rows.kDimTiles; ++d) {
    Fragment query[kRowTiles];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) query[r] = rows.query(r, d);
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      const Columns key = TurnedTile<dim, kTileKeys>::load(keys, d * kTile, k * kTile);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) multiply(query[r], key, scores[r][k]);
    }
  }
}

GPU_FUNCTION inline void cap_all(float softcap, Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (auto& row : scores) {
#pragma unroll
    for (Accumulator& tile : row) cap(softcap, tile);
  }
}

// Scores of keys that a row does not see become the smallest of all. `seen` is by row of the block.
template <int dim>
GPU_FUNCTION inline void hide(const KeyRange* seen, i32 base, Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    KeyRange range[kRowSlots];
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) range[row_slot(i)] = seen[QueryRows<dim>::row(r, i)];
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 key = base + k * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        const KeyRange& own = range[row_slot(i)];
        if (key < own.begin || key >= own.end) scores[r][k].value[i] = 2 * kNoMaximum;
      }
    }
  }
}

// Scores become weights relative to the rows' new maxima; outputs and sums are made to match. Scores and maxima are
// logarithms to the base 2.
template <int dim>
GPU_FUNCTION inline void weigh(QueryRows<dim>& rows, Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    float highest[kRowSlots], factor[kRowSlots];
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) highest[slot] = rows.maximum[r][slot];
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        highest[row_slot(i)] = max_of(highest[row_slot(i)], scores[r][k].value[i]);
      }
    }
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      highest[slot] = row_max(highest[slot]);
      factor[slot] = quick_exp2(rows.maximum[r][slot] - highest[slot]);
      rows.maximum[r][slot] = highest[slot];
      rows.sum[r][slot] *= factor[slot];
    }
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        float& weight = scores[r][k].value[i];
        weight = quick_exp2(weight - highest[row_slot(i)]);  // 0 where there is no key
        rows.sum[r][row_slot(i)] += weight;
      }
    }
    bool higher = false;
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) higher = higher || factor[slot] != 1;
    if (!wave_any(higher)) continue;  // more and more often, as maxima settle
#pragma unroll
    for (int d = 0; d < rows.kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) rows.output[r][d].value[i] *= factor[row_slot(i)];
    }
  }
}

// outputs += weights · values.
template <int dim>
GPU_FUNCTION inline void multiply_values(QueryRows<dim>& rows, const Half* values,
                                         const Accumulator (&weights)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
    Fragment weight[kRowTiles];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) weight[r] = to_fragment(weights[r][k]);
#pragma unroll
    for (int d = 0; d < rows.kDimTiles; ++d) {
      const Columns value = TurnedTile<kTileKeys, dim>::load(values, k * kTile, d * kTile);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) multiply(weight[r], value, rows.output[r][d]);
    }
  }
}

// The block's rows of q into its memory, scaled so that scores are logarithms to the base 2.
template <int dim>
GPU_FUNCTION inline void load_queries(const AttentionArgs& a, i32 first, const RowPlace* places, Half* queries) {
  constexpr int kRowPairs = dim / 2, kPairs = kRowPairs * kQueryRows / kThreads;  // a thread
#pragma unroll 32
  for (int i = 0; i < kPairs; ++i) {
    const i32 pair = static_cast<i32>(thread_index()) + i * kThreads, row = pair / kRowPairs, d = pair % kRowPairs * 2;
    const RowPlace place = places[row];
    const float* x = a.q.data + (first + place.token) * a.q.token_stride + place.head * a.q.head_stride;
    float value[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float element = place.token >= 0 && d + j < a.kv.dim ? x[d + j] * (a.scale * kLog2E) : 0;
      value[j] = min_of(max_of(element, -kLargestHalf), kLargestHalf);
    }
    *reinterpret_cast<u32*>(queries + static_cast<u32>(row) * query_pitch(dim) + d) = pack_halves(value[0], value[1]);
  }
}

// Results of the wave's rows: outputs, or this share's part of them.
template <int dim>
GPU_FUNCTION inline void store_rows(const AttentionArgs& a, i32 first, const RowPlace* places, QueryRows<dim>& rows) {
  constexpr int kTogether = kColumnPairs ? 2 : 1;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) rows.sum[r][slot] = row_sum(rows.sum[r][slot]);
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; i += kTogether) {
      const int slot = row_slot(i);
      const RowPlace place = places[rows.row(r, i)];
      if (place.token < 0) continue;
      const i64 row = static_cast<i64>(first + place.token) * a.q.heads + place.head;
      const float sum = rows.sum[r][slot];
      float* to = a.y + row * a.kv.dim;
      float factor = sum > 0 ? 1 / sum : 0;
      if (a.shares > 1) {
        to = a.partials + (row * a.shares + block_index().z) * partial_floats(a.kv.dim);
        factor = 1;
        to[a.kv.dim] = rows.maximum[r][slot] * kLn2;  // by every lane that has the row
        to[a.kv.dim + 1] = sum;
      }
#pragma unroll
      for (int tile = 0; tile < rows.kDimTiles; ++tile) {
        const i32 d = tile * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        if (d >= a.kv.dim) continue;
        const auto& value = rows.output[r][tile].value;
        if constexpr (kColumnPairs) {
          *reinterpret_cast<FloatPair*>(to + d) = {value[i] * factor, value[i + 1] * factor};
        } else {
          to[d] = value[i] * factor;
        }
      }
    }
  }
}

// Tokens of one sequence that follow each other.
struct TokenRun {
  i32 end;        // the first that is not one of them
  KeyRange all;   // the keys that any of them sees,
  KeyRange seen;  // and that all of them see
};
// The run that begins with the block's token `from`; every wave finds it for itself.
GPU_FUNCTION inline TokenRun token_run(const AttentionArgs& a, i32 first, i32 from, i32 tokens) {
  const i32 sequence = a.sequence[first + from], own = from + static_cast<i32>(lane());
  TokenRun run{tokens, {kNoKey, 0}, {0, kNoKey}};
  for (i32 token = own; token < run.end; token += static_cast<i32>(kWave)) {
    if (a.sequence[first + token] != sequence) run.end = token;
  }
  run.end = wave_min(run.end);
  for (i32 token = own; token < run.end; token += static_cast<i32>(kWave)) {
    const KeyRange keys = keys_of_token(a, first + token);
    if (keys.end > keys.begin) run.all = {min_of(run.all.begin, keys.begin), max_of(run.all.end, keys.end)};
    run.seen = {max_of(run.seen.begin, keys.begin), min_of(run.seen.end, keys.end)};
  }
  run.all = {wave_min(run.all.begin), wave_max(run.all.end)};
  run.seen = {wave_max(run.seen.begin), wave_min(run.seen.end)};
  return run;
}

template <bool scaled, int dim>
GPU_FUNCTION inline void attention_tiled(const AttentionArgs& a) {
  auto& memory = block_memory<BlockMemory<scaled, dim>>();
  Half* const values = memory.values();
  const i32 group = a.q.heads / a.kv.heads, block_tokens = kQueryRows / group;
  // Later tokens have more keys: they come first, of all heads.
  const i32 first = static_cast<i32>(grid_size().y - 1 - block_index().y) * block_tokens;
  const i32 tokens = min_of(block_tokens, a.tokens - first), own_row = static_cast<i32>(thread_index());
  const i32 kv_head = static_cast<i32>(block_index().x);
  if (own_row < kQueryRows) {
    const i32 token = own_row / group;
    memory.places[own_row] = {token < tokens ? token : -1, kv_head * group + own_row % group};
  }
  barrier();
  load_queries<dim>(a, first, memory.places, memory.queries());
  barrier();
  QueryRows<dim> rows(memory.queries());
  typename BlockMemory<scaled, dim>::Tiles tiles(a, kv_head);

  // Tokens of one sequence that follow each other walk over its keys together.
  for (i32 from = 0, to = 0; from < tokens; from = to) {
    const TokenRun run = token_run(a, first, from, tokens);
    to = run.end;
    const KeyRange all = run.all;
    if (all.end <= all.begin) continue;
    const i32 seen_end = from > 0 || to < tokens ? 0 : run.seen.end;  // rows of other runs see none
    barrier();  // the rows' queries are where they belong, and nobody looks at the ranges before
    if (own_row < kQueryRows) {
      const i32 token = memory.places[own_row].token;
      memory.seen[own_row] = token >= from && token < to ? keys_of_token(a, first + token) : KeyRange{0, 0};
    }
    const i32 base = all.begin / kTileKeys * kTileKeys, count = (all.end - base + kTileKeys - 1) / kTileKeys;
    const i32 share = (count + a.shares - 1) / a.shares * kTileKeys;
    const i32 begin = base + static_cast<i32>(block_index().z) * share, end = min_of(all.end, begin + share);
    tiles.select(a.sequence[first + from], {max_of(all.begin, begin), end});
    if (begin < end) tiles.begin_keys(begin, memory.keys(0));
    i32 tile = 0;
    for (i32 key = begin; key < end; key += kTileKeys, ++tile) {
      tiles.template end_keys<0>();
      barrier();  // all keys are there, and nobody reads the values and the keys before
      const bool all_see = key >= run.seen.begin && key + kTileKeys <= seen_end;
      tiles.begin_values(key, values);
      if (key + kTileKeys < end) {
        tiles.begin_keys(key + kTileKeys, memory.keys(tile + 1));
      } else {
        tiles.begin_none();
      }
      Accumulator scores[kRowTiles][kKeyTiles];
      multiply_keys<dim>(rows, memory.keys(tile), scores);
      if (a.softcap > 0) cap_all(a.softcap, scores);
      if (!all_see) hide<dim>(memory.seen, key, scores);
      weigh<dim>(rows, scores);
      tiles.template end_values<1>();
      barrier();  // all values are there
      multiply_values<dim>(rows, values, scores);
    }
    barrier();
  }
  store_rows<dim>(a, first, memory.places, rows);
}

template <int dim>
using F16Memory = BlockMemory<false, dim>;
template <int dim>
using I8Memory = BlockMemory<true, dim>;

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ATTENTION_TILED(name, Memory, scaled, dim)                                          \
  GPU_MEMORY_KERNEL(name, gabbro::gpu::GABBRO_GPU::kThreads, gabbro::gpu::GABBRO_GPU::Memory<dim>, \
                    gabbro::gpu::AttentionArgs, attention_tiled<scaled, dim>)

GABBRO_ATTENTION_TILED(attention_f16_tiled_64, F16Memory, false, 64)
GABBRO_ATTENTION_TILED(attention_f16_tiled_128, F16Memory, false, 128)
GABBRO_ATTENTION_TILED(attention_i8_tiled_64, I8Memory, true, 64)
GABBRO_ATTENTION_TILED(attention_i8_tiled_128, I8Memory, true, 128)
