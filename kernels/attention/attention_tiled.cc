// Causal attention of many tokens over the paged cache on matrix cores (FlashAttention-2, Dao 2023): a block takes some
// tokens and all query heads of one KV head, kQueryRows rows together, and walks over the keys in tiles. Each wave has
// separate rows, with a running maximum and sum; scores never leave its registers.
#include "kernels/attention/attention_rows.h"
#include "kernels/attention/cache_tiles.h"

namespace gabbro::gpu::GABBRO_GPU {

template <int dim>
using Rows = QueryRows<ManyRows<dim>>;
inline constexpr int kTileKeys = kRowTileKeys, kThreads = ManyRows<64>::kThreads;
static_assert(kQueryRows == ManyRows<64>::kRows);

// Token and head of a row of the block.
struct RowPlace {
  i32 token;  // of the block's; -1: of none
  i32 head;
};

template <bool scaled, int dim>
struct BlockMemory {
  using Tiles = CacheTiles<scaled, dim, kTileKeys, kThreads>;
  // The next keys come while some are worked on; where copies wait in registers they need no place before.
  static constexpr int kKeySlots = kCopiesPassRegisters || scaled ? 2 : 1;
  using Layout = ManyRows<dim>;
  static constexpr u32 kQueryElements = Layout::kQueryElements;
  static constexpr u32 kTileElements = kKeySlots * Tiles::Keys::kElements + Tiles::Values::kElements;
  static constexpr u32 kElements = Layout::kQueriesStay             ? kTileElements + kQueryElements
                                   : kTileElements > kQueryElements ? kTileElements
                                                                    : kQueryElements;
  alignas(16) Half elements[kElements];
  RowPlace places[kQueryRows];
  KeyRange seen[kQueryRows];  // by each row

  GPU_FUNCTION Half* keys(i32 tile) { return elements + tile % kKeySlots * Tiles::Keys::kElements; }
  GPU_FUNCTION Half* values() { return elements + kKeySlots * Tiles::Keys::kElements; }
  GPU_FUNCTION Half* queries() { return elements + (Layout::kQueriesStay ? kTileElements : 0); }
};

GPU_FUNCTION inline KeyRange keys_of_token(const AttentionArgs& a, i32 token) {
  const i32 position = a.positions[token];
  if (!in_table(a.table, a.kv, a.sequence[token], position)) return {0, 0};  // none: zeros
  return {first_key(a, position), position + 1};
}

template <class Scores>
GPU_FUNCTION inline void cap_all(float softcap, Scores& scores) {
#pragma unroll
  for (auto& row : scores) {
#pragma unroll
    for (Accumulator& tile : row) cap(softcap, tile);
  }
}

// Scores of keys that a row does not see become the smallest of all. `seen` is by row of the block.
template <int dim>
GPU_FUNCTION inline void hide(const KeyRange* seen, i32 base, typename ManyRows<dim>::Scores& scores) {
  using L = ManyRows<dim>;
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
    KeyRange range[kRowSlots];
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) range[row_slot(i)] = seen[Rows<dim>::row(r, i)];
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 key = base + k * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        const KeyRange& own = range[row_slot(i)];
        if (key < own.begin || key >= own.end) scores[r][k].value[i] = 2 * kNoMaximum;
      }
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
    *reinterpret_cast<u32*>(queries + static_cast<u32>(row) * ManyRows<dim>::kQueryPitch + d) =
        pack_f16x2(value[0], value[1]);
  }
}

// Results of the wave's rows: outputs, or this share's part of them.
template <int dim>
GPU_FUNCTION inline void store_rows(const AttentionArgs& a, i32 first, const RowPlace* places, Rows<dim>& rows) {
  using L = ManyRows<dim>;
  constexpr int kTogether = kColumnPairs ? 2 : 1;
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
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
      float factor = final_factor(a.sinks, place.head, rows.maximum[r][slot] * kLn2, sum);
      if (a.splits > 1) {
        to = a.partials + (row * a.splits + block_index().z) * partial_floats(a.kv.dim);
        factor = 1;
        to[a.kv.dim] = rows.maximum[r][slot] * kLn2;  // by every lane that has the row
        to[a.kv.dim + 1] = sum;
      }
#pragma unroll
      for (int tile = 0; tile < L::kDimTiles; ++tile) {
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
  Rows<dim> rows(memory.queries());
  typename BlockMemory<scaled, dim>::Tiles tiles(a, kv_head);

  // Tokens of one sequence that follow each other walk over its keys together.
  for (i32 from = 0, to = 0; from < tokens; from = to) {
    const TokenRun run = token_run(a, first, from, tokens);
    to = run.end;
    const KeyRange all = run.all;
    if (all.end <= all.begin) continue;
    const i32 seen_end = from > 0 || to < tokens ? 0 : run.seen.end;  // rows of other runs see none
    barrier();  // the queries are stored; reads of the previous ranges are done
    if (own_row < kQueryRows) {
      const i32 token = memory.places[own_row].token;
      memory.seen[own_row] = token >= from && token < to ? keys_of_token(a, first + token) : KeyRange{0, 0};
    }
    const i32 base = all.begin / kTileKeys * kTileKeys, count = (all.end - base + kTileKeys - 1) / kTileKeys;
    const i32 share = (count + a.splits - 1) / a.splits * kTileKeys;
    const i32 begin = base + static_cast<i32>(block_index().z) * share, end = min_of(all.end, begin + share);
    tiles.select(a.sequence[first + from], {max_of(all.begin, begin), end});
    if (begin < end) tiles.begin_keys(begin, memory.keys(0));
    i32 tile = 0;
    for (i32 key = begin; key < end; key += kTileKeys, ++tile) {
      tiles.template end_keys<0>();
      barrier();  // the keys have arrived; reads of the previous tiles are done
      const bool all_see = key >= run.seen.begin && key + kTileKeys <= seen_end;
      tiles.begin_values(key, values);
      if (key + kTileKeys < end) {
        tiles.begin_keys(key + kTileKeys, memory.keys(tile + 1));
      } else {
        tiles.begin_none();
      }
      typename ManyRows<dim>::Scores scores;
      multiply_keys<Half, TransposedTile<dim, kTileKeys>>(rows, memory.keys(tile), scores);
      if (a.softcap > 0) cap_all(a.softcap, scores);
      if (!all_see) hide<dim>(memory.seen, key, scores);
      apply_softmax(rows, 1, scores);
      tiles.template end_values<1>();
      barrier();  // all values are there
      multiply_values<Half, TransposedTile<kTileKeys, dim>>(rows, values, scores);
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
