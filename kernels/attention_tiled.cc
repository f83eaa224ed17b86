// Causal attention of many tokens over the paged cache on matrix cores (FlashAttention-2, Dao 2023): a block takes some
// tokens and all query heads of one KV head, kQueryRows rows together, and walks over the keys in tiles. Each wave has
// rows of its own, with a running maximum and sum; scores never leave its registers.
#include "kernels/gpu/matrix.h"
#include "kernels/kv_access.h"

namespace gabbro::gpu::GABBRO_GPU {

// On RDNA, where what is copied passes through registers, and on targets without matrix cores, whose fragments are
// large, a lane has none left for the scores of 64 keys.
inline constexpr int kTileKeys = (kWave == 32 && kRowSlots == 1) || sizeof(Fragment) > 16 ? 32 : 64;
inline constexpr u32 kKeyPitch = kTileKeys + 8;  // 16 bytes more, so that eight rows lie in all banks
inline constexpr int kWavesOfBlock = kAttentionTiledThreads / static_cast<int>(kWave);
inline constexpr int kWaveRows = kQueryRows / kWavesOfBlock;
inline constexpr int kRowTiles = kWaveRows / static_cast<int>(kTile);
inline constexpr int kKeyTiles = kTileKeys / static_cast<int>(kTile);
inline constexpr float kNoMaximum = -1e30f;  // of a row without keys; finite, so that differences are never NaN
inline constexpr float kLargestHalf = 65504;
inline constexpr float kLog2E = 1.4426950f, kLn2 = 0.69314718f;

// Keys begin <= key < end.
struct KeyRange {
  i32 begin = 0, end = 0;
};

GPU_FUNCTION inline KeyRange keys_of_token(const AttentionArgs& a, i32 token) {
  const i32 position = a.positions[token];
  if (!in_table(a.table, a.kv, a.sequence[token], position)) return {};  // no keys, and the result is zeros
  return {a.window > 0 ? max_of(0, position + 1 - a.window) : 0, position + 1};
}

// Eight neighbouring elements of a cache as halves; `scale` steps by `scale_step` from element to element (0: all have
// one).
template <bool scaled>
GPU_FUNCTION inline Quad load_halves(const KvSide& side, i64 element, i64 scale, i64 scale_step) {
  if constexpr (!scaled) return load_quad(static_cast<const Half*>(side.data) + element);
  const u64 codes = *reinterpret_cast<const u64*>(static_cast<const i8*>(side.data) + element);
  float values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = static_cast<float>(static_cast<i8>(codes >> (8 * i))) * to_float(side.scale[scale + i * scale_step]);
  }
  Quad halves;
#pragma unroll
  for (int w = 0; w < 4; ++w) halves.word[w] = pack_halves(values[2 * w], values[2 * w + 1]);
  return halves;
}

// Brings tiles of keys and of values of one KV head and sequence into the block's memory.
template <bool scaled, int dim>
class CacheTiles {
 public:
  static constexpr u32 kValuePitch = dim + 8;

  GPU_FUNCTION CacheTiles(const AttentionArgs& a, i32 head) : a_(a), head_(head) {
    while (1 << page_shift_ < a.kv.page) ++page_shift_;
  }

  GPU_FUNCTION void select(i32 sequence, const KeyRange& range) {
    sequence_ = sequence;
    range_ = range;
  }

  // tile[d * kKeyPitch + key], of the keys from `base` on.
  GPU_FUNCTION void begin_keys(i32 base, Half* tile) {
    constexpr int kRowQuads = kTileKeys / 8;
    const i32 column = static_cast<i32>(thread_index()) % kRowQuads * 8, key = base + column;
    const KeyPlace place = key_place(a_.kv, page(key), head_, slot_of(key));
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const i32 d = (static_cast<i32>(thread_index()) + i * kAttentionTiledThreads) / kRowQuads;
      copy(keys_, i, tile + static_cast<u32>(d) * kKeyPitch + column, a_.keys,
           place.element + static_cast<i64>(d) * a_.kv.page,
           place.scale + static_cast<i64>(d / kScaleGroup) * a_.kv.page, 1, key < range_.end && d < a_.kv.dim);
    }
    keys_.sent();
  }
  // tile[key * kValuePitch + d]; zeros where there is no key, since 0 times what lies there may be no number.
  GPU_FUNCTION void begin_values(i32 base, Half* tile) {
    constexpr int kRowQuads = dim / 8;
    const bool one_page = a_.kv.page >= kTileKeys;
    const i32 first_page = page(base);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const i32 quad = static_cast<i32>(thread_index()) + i * kAttentionTiledThreads;
      const i32 d = quad % kRowQuads * 8, slot = quad / kRowQuads, key = base + slot;
      const ValuePlace place = value_place(a_.kv, one_page ? first_page : page(key), head_, slot_of(key));
      copy(values_, i, tile + static_cast<u32>(slot) * kValuePitch + d, a_.values, place.element + d,
           place.scale + d / kScaleGroup, 0, key >= range_.begin && key < range_.end && d < a_.kv.dim);
    }
    values_.sent();
  }
  // The one that was begun first is in the tile, while the other may be under way. With scales it was there at once.
  GPU_FUNCTION void end_keys() {
    if constexpr (!scaled) keys_.template landed<1>();
  }
  GPU_FUNCTION void end_values() {
    if constexpr (!scaled) values_.template landed<1>();
  }
  // Instead of begin_keys, where there are no more.
  GPU_FUNCTION void begin_none() { keys_.sent(); }

 private:
  static constexpr int kQuads = kTileKeys * dim / 8 / kAttentionTiledThreads;
  using Copy = TileCopy<kQuads>;

  // Page numbers out of range are held within the cache, keys past the end on the last page.
  GPU_FUNCTION i32 page(i32 key) const {
    const i64 entry = static_cast<i64>(sequence_) * a_.table.columns + (min_of(key, range_.end - 1) >> page_shift_);
    return min_of(max_of(a_.table.pages[entry], 0), a_.kv.pages - 1);
  }
  GPU_FUNCTION i32 slot_of(i32 key) const { return key & (a_.kv.page - 1); }
  GPU_FUNCTION static void copy(Copy& copies, int i, Half* to, const KvSide& side, i64 element, i64 scale,
                                i64 scale_step, bool inside) {
    if constexpr (scaled) {
      store_quad(to, inside ? load_halves<true>(side, element, scale, scale_step) : Quad{});
    } else {
      copies.begin(i, to, static_cast<const Half*>(side.data) + (inside ? element : 0), inside);
    }
  }

  const AttentionArgs& a_;
  i32 head_;
  i32 page_shift_ = 0;  // a division by the page's size would take longer than the rest of finding an element
  i32 sequence_ = 0;
  KeyRange range_;
  Copy keys_, values_;
};

// A wave's rows: their tokens' keys, what is known of their scores, and their outputs.
template <int dim>
struct QueryRows {
  static constexpr int kDimTiles = dim / static_cast<int>(kTile);
  Fragment q[kRowTiles][kDimTiles];
  Accumulator output[kRowTiles][kDimTiles];
  float maximum[kRowTiles][kRowSlots];
  float sum[kRowTiles][kRowSlots];  // this lane's share
  KeyRange keys[kRowTiles][kRowSlots];
};

// scores = q·kᵀ for a tile of keys.
template <int dim>
GPU_FUNCTION inline void multiply_keys(const QueryRows<dim>& rows, const Half* keys,
                                       Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int d = 0; d < rows.kDimTiles; ++d) {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      const Fragment key = load_fragment_turned(keys + static_cast<u32>(d) * kTile * kKeyPitch + k * kTile, kKeyPitch);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) multiply(rows.q[r][d], key, scores[r][k]);
    }
  }
}

GPU_FUNCTION inline void cap(float softcap, Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (float& score : scores[r][k].value) score = softcap * kLog2E * tanh(score / (softcap * kLog2E));
    }
  }
}

// Scores of keys that a row does not see become the smallest of all.
template <int dim>
GPU_FUNCTION inline void hide(const QueryRows<dim>& rows, i32 base, Accumulator (&scores)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 key = base + k * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        const KeyRange& seen = rows.keys[r][row_slot(i)];
        if (key < seen.begin || key >= seen.end) scores[r][k].value[i] = 2 * kNoMaximum;
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
      factor[slot] = exp2(rows.maximum[r][slot] - highest[slot]);
      rows.maximum[r][slot] = highest[slot];
      rows.sum[r][slot] *= factor[slot];
    }
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        float& weight = scores[r][k].value[i];
        weight = exp2(weight - highest[row_slot(i)]);  // 0 where there is no key
        rows.sum[r][row_slot(i)] += weight;
      }
    }
#pragma unroll
    for (int d = 0; d < rows.kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) rows.output[r][d].value[i] *= factor[row_slot(i)];
    }
  }
}

// outputs += weights · values.
template <int dim>
GPU_FUNCTION inline void multiply_values(QueryRows<dim>& rows, const Half* values, u32 pitch,
                                         const Accumulator (&weights)[kRowTiles][kKeyTiles]) {
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
    Fragment weight[kRowTiles];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) weight[r] = to_fragment(weights[r][k]);
#pragma unroll
    for (int d = 0; d < rows.kDimTiles; ++d) {
      const Fragment value = load_fragment_turned(values + static_cast<u32>(k) * kTile * pitch + d * kTile, pitch);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) multiply(weight[r], value, rows.output[r][d]);
    }
  }
}

// Which token and head a row of the block is.
struct RowPlace {
  i32 token;  // of the block's
  i32 head;
  bool inside;
};
struct RowPlaces {
  i32 group;   // query heads of a KV head
  i32 tokens;  // of the block

  GPU_FUNCTION RowPlace operator()(i32 row) const {
    return {row / group, static_cast<i32>(block_index().y) * group + row % group, row / group < tokens};
  }
};

// The wave's rows of q, scaled so that scores are logarithms to the base 2, through the block's memory.
template <int dim>
GPU_FUNCTION inline void load_queries(const AttentionArgs& a, i32 first, const RowPlaces& places, Half* staging,
                                      QueryRows<dim>& rows) {
  constexpr u32 kPitch = dim + 8;
  constexpr i32 kShare = dim * kQueryRows / kAttentionTiledThreads;  // of a row, that a thread loads
  const i32 row = static_cast<i32>(thread_index()) * kShare / dim,
            begin = static_cast<i32>(thread_index()) * kShare % dim;
  const RowPlace place = places(row);
  const float* x = a.q.data + (first + place.token) * a.q.token_stride + place.head * a.q.head_stride;
#pragma unroll 8
  for (i32 d = begin; d < begin + kShare; d += 2) {
    float pair[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float value = place.inside && d + i < a.kv.dim ? x[d + i] * (a.scale * kLog2E) : 0;
      pair[i] = min_of(max_of(value, -kLargestHalf), kLargestHalf);
    }
    *reinterpret_cast<u32*>(staging + static_cast<u32>(row) * kPitch + d) = pack_halves(pair[0], pair[1]);
  }
  barrier();
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const Half* own = staging + (wave_index() * kWaveRows + r * kTile) * kPitch;
#pragma unroll
    for (int d = 0; d < rows.kDimTiles; ++d) rows.q[r][d] = load_fragment(own + d * kTile, kPitch);
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      rows.maximum[r][slot] = kNoMaximum;
      rows.sum[r][slot] = 0;
    }
  }
  barrier();
}

// Results of the wave's rows: outputs, or this share's part of them.
template <int dim>
GPU_FUNCTION inline void store_rows(const AttentionArgs& a, i32 first, const RowPlaces& places, QueryRows<dim>& rows) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) rows.sum[r][slot] = row_sum(rows.sum[r][slot]);
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const int slot = row_slot(i);
      const RowPlace place = places(static_cast<i32>(wave_index()) * kWaveRows + r * static_cast<i32>(kTile) +
                                    static_cast<i32>(row_of(i)));
      if (!place.inside) continue;
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
        if (d < a.kv.dim) to[d] = rows.output[r][tile].value[i] * factor;
      }
    }
  }
}

template <bool scaled, int dim>
GPU_FUNCTION inline void attention_tiled(const AttentionArgs& a) {
  using Tiles = CacheTiles<scaled, dim>;
  GPU_SHARED(Half, keys, dim * kKeyPitch);
  GPU_SHARED(Half, values, (kTileKeys < kQueryRows ? kQueryRows : kTileKeys) * Tiles::kValuePitch);
  const i32 group = a.q.heads / a.kv.heads, block_tokens = kQueryRows / group;
  // Later tokens have more keys: they come first.
  const i32 first = static_cast<i32>(grid_size().x - 1 - block_index().x) * block_tokens;
  const RowPlaces places{group, min_of(block_tokens, a.tokens - first)};
  QueryRows<dim> rows;
  load_queries<dim>(a, first, places, values, rows);
  Tiles tiles(a, static_cast<i32>(block_index().y));

  // Tokens of one sequence that follow each other walk over its keys together.
  for (i32 from = 0, to = 0; from < places.tokens; from = to) {
    const i32 sequence = a.sequence[first + from];
    KeyRange all{0x7fffffff, 0}, seen{0, 0x7fffffff};  // by any of the tokens, and by all rows of the block
    for (to = from; to < places.tokens && a.sequence[first + to] == sequence; ++to) {
      const KeyRange own = keys_of_token(a, first + to);
      if (own.end > own.begin) all = {min_of(all.begin, own.begin), max_of(all.end, own.end)};
      seen = {max_of(seen.begin, own.begin), min_of(seen.end, own.end)};
    }
    if (from > 0 || to < places.tokens) seen.end = 0;  // other rows see none
    if (all.end <= all.begin) continue;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 token = places(static_cast<i32>(wave_index()) * kWaveRows + r * static_cast<i32>(kTile) +
                                 static_cast<i32>(row_of(i)))
                              .token;
        rows.keys[r][row_slot(i)] = token >= from && token < to ? keys_of_token(a, first + token) : KeyRange{};
      }
    }
    tiles.select(sequence, all);
    const i32 base = all.begin / kTileKeys * kTileKeys, count = (all.end - base + kTileKeys - 1) / kTileKeys;
    const i32 share = (count + a.shares - 1) / a.shares * kTileKeys;
    const i32 begin = base + static_cast<i32>(block_index().z) * share, end = min_of(all.end, begin + share);
    if (begin < end) tiles.begin_keys(begin, keys);
    for (i32 key = begin; key < end; key += kTileKeys) {
      tiles.begin_values(key, values);
      tiles.end_keys();
      barrier();
      Accumulator scores[kRowTiles][kKeyTiles];
      multiply_keys<dim>(rows, keys, scores);
      barrier();
      const bool more = key + kTileKeys < end;
      if (more) {
        tiles.begin_keys(key + kTileKeys, keys);
      } else {
        tiles.begin_none();
      }
      if (a.softcap > 0) cap(a.softcap, scores);
      if (key < seen.begin || key + kTileKeys > seen.end) hide<dim>(rows, key, scores);
      weigh<dim>(rows, scores);
      tiles.end_values();
      barrier();
      multiply_values<dim>(rows, values, Tiles::kValuePitch, scores);
      barrier();
    }
  }
  store_rows<dim>(a, first, places, rows);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(attention_f16_tiled_64, 128, gabbro::gpu::AttentionArgs, attention_tiled<false, 64>)
GPU_KERNEL(attention_f16_tiled_128, 128, gabbro::gpu::AttentionArgs, attention_tiled<false, 128>)
GPU_KERNEL(attention_i8_tiled_64, 128, gabbro::gpu::AttentionArgs, attention_tiled<true, 64>)
GPU_KERNEL(attention_i8_tiled_128, 128, gabbro::gpu::AttentionArgs, attention_tiled<true, 128>)
