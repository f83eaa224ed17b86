// Causal attention of few tokens over the paged cache on matrix cores: a block has a token, up to kMatrixHeads heads
// that share a KV head, and a split of the keys, of which tiles are always in flight. Each wave has every fourth group
// of 16 keys, with a separate maximum, sum and output; the waves' results are merged at the end.
//
// A tile of a GEMM has 16 rows and eight heads fill half of them: rows 8-15 hold the f16 residual of the queries and of
// the probabilities, so that results are those of f32.
#include "kernels/attention/attention_splits.h"
#include "kernels/attention/cache_tiles.h"

#if defined(GABBRO_MATRIX_CORES)

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr i32 kTileKeys = 64;
inline constexpr int kWaves = kTileKeys / static_cast<int>(kTile);
inline constexpr int kThreads = kWaves * static_cast<int>(kWave);
static_assert(kMatrixHeads == static_cast<int>(kTile) / 2);

// Tiles of which the copies are under way while one is worked on, and tiles that the block's memory holds: where copies
// pass through registers they land when there is room.
inline constexpr int kAhead = kCopiesPassRegisters ? 2 : 1;
inline constexpr int kSlots = kCopiesPassRegisters ? 3 : 1;

template <int dim>
struct BlockMemory {
  using Tiles = CacheTiles<false, dim, kTileKeys, kThreads>;
  static constexpr u32 kPitch = dim + 8;
  alignas(16) Half queries[kTile * kPitch];
  struct Slot {
    alignas(16) Half keys[Tiles::Keys::kElements];
    alignas(16) Half values[Tiles::Values::kElements];
  } slots[kSlots];
  float maxima[kWaves][kMatrixHeads];
  float sums[kWaves][kMatrixHeads];
  Half fresh_key[dim];  // of the token itself, where they are not in the cache yet
  Half fresh_value[dim];

  // [kWaves][kMatrixHeads][dim], where tiles were.
  GPU_FUNCTION float* outputs() {
    static_assert(sizeof(slots) >= sizeof(float) * kWaves * kMatrixHeads * dim);
    return reinterpret_cast<float*>(slots);
  }
};

// The heads' queries, scaled so that scores are logarithms to the base 2: the f16 values in the first eight rows, their
// residuals in the others. `element(head, d)` is called for every d by one thread, for all heads.
template <int dim, class Element>
GPU_FUNCTION inline void keep_queries(const AttentionArgs& a, const BlockHeads& heads, Half* queries,
                                      const Element& element) {
  constexpr int kStep = kThreads / dim;  // heads that are done together
  const i32 d = static_cast<i32>(thread_index()) % dim, first = static_cast<i32>(thread_index()) / dim;
#pragma unroll
  for (i32 h = 0; h < kMatrixHeads; h += kStep) {
    const i32 head = h + first;
    const float x = head < heads.count && d < a.kv.dim ? element(heads.first + head, d) * (a.scale * kLog2E) : 0;
    const Half high = to_half(min_of(max_of(x, -kLargestHalf), kLargestHalf));
    Half* to = queries + static_cast<u32>(head) * BlockMemory<dim>::kPitch + d;
    to[0] = high;
    to[kMatrixHeads * BlockMemory<dim>::kPitch] = to_half(min_of(max_of(x - to_float(high), -1.0f), 1.0f));
  }
}

// A wave's running softmax.
template <int dim>
struct Running {
  static constexpr int kDimTiles = dim / static_cast<int>(kTile);
  Accumulator output[kDimTiles];
  float maximum[kRowSlots];
  float sum[kRowSlots];  // this lane's share
};

// The wave's scores of its keys of a tile; the row of a head and the row eight further have the same.
template <int dim>
GPU_FUNCTION inline Accumulator multiply_keys(const Half* queries, const Half* keys, u32 key) {
  Accumulator parts[2];  // so that fewer products wait for each other
#pragma unroll
  for (int d = 0; d < dim / static_cast<int>(kTile); ++d) {
    multiply(load_fragment(queries + d * kTile, BlockMemory<dim>::kPitch),
             BlockMemory<dim>::Tiles::Keys::load(keys, d * kTile, key), parts[d % 2]);
  }
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) parts[0].value[i] += parts[1].value[i];
  return add_row_pairs(parts[0]);
}

template <int dim>
GPU_FUNCTION inline void apply_softmax(Running<dim>& running, Accumulator& scores) {
  float highest[kRowSlots], factor[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) highest[slot] = running.maximum[slot];
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) highest[row_slot(i)] = max_of(highest[row_slot(i)], scores.value[i]);
  bool higher = false;
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) {
    highest[slot] = row_max(highest[slot]);
    higher = higher || highest[slot] != running.maximum[slot];
    factor[slot] = quick_exp2(running.maximum[slot] - highest[slot]);
    running.maximum[slot] = highest[slot];
    running.sum[slot] *= factor[slot];
  }
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) {
    float& weight = scores.value[i];
    weight = quick_exp2(weight - highest[row_slot(i)]);  // 0 where there is no key
    running.sum[row_slot(i)] += weight;
    if (row_of(i) >= kMatrixHeads) weight -= to_float(to_half(weight));
  }
  if (!wave_any(higher)) return;
#pragma unroll
  for (Accumulator& output : running.output) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) output.value[i] *= factor[row_slot(i)];
  }
}

// A share's result, or part of one: see partial_floats().
template <int dim>
GPU_FUNCTION inline void store_outputs(const AttentionArgs& a, i64 row, const BlockHeads& heads, i32 splits,
                                       const Running<dim>& running, BlockMemory<dim>& memory) {
  const i32 wave = static_cast<i32>(wave_index());
  float* const outputs = memory.outputs();
  barrier();  // the last reads of the tiles are done
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) {
    const float sum = row_sum(running.sum[slot]);
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 head = static_cast<i32>(row_of(i));
      if (row_slot(i) != slot || head >= kMatrixHeads) continue;
      memory.maxima[wave][head] = running.maximum[slot];  // by every lane that has the row
      memory.sums[wave][head] = sum;
    }
  }
#pragma unroll
  for (int tile = 0; tile < running.kDimTiles; ++tile) {
    const Accumulator whole = add_row_pairs(running.output[tile]);
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const u32 head = row_of(i);
      if (head < kMatrixHeads)
        outputs[(static_cast<u32>(wave) * kMatrixHeads + head) * dim + tile * kTile + column_of(i)] = whole.value[i];
    }
  }
  barrier();
  for (i32 i = static_cast<i32>(thread_index()); i < heads.count * dim; i += kThreads) {
    const i32 head = i / dim, d = i % dim;
    if (d >= a.kv.dim) continue;
    float highest = kNoMaximum, value = 0, total = 0;
#pragma unroll
    for (int w = 0; w < kWaves; ++w) highest = max_of(highest, memory.maxima[w][head]);
#pragma unroll
    for (int w = 0; w < kWaves; ++w) {
      const float factor = quick_exp2(memory.maxima[w][head] - highest);
      value += factor * outputs[(w * kMatrixHeads + head) * dim + d];
      total += factor * memory.sums[w][head];
    }
    store_split(a, row + head, splits, d, value, highest * kLn2, total);
  }
}

// The block's share of a token's keys: first its tiles are sent for, then queries are made.
template <int dim>
class Share {
 public:
  using Tiles = typename BlockMemory<dim>::Tiles;

  GPU_FUNCTION Share(const AttentionArgs& a, const BlockHeads& heads, i32 sequence, const Keys& keys,
                     BlockMemory<dim>& memory)
      : a_(a), heads_(heads), keys_(keys), memory_(memory), tiles_(a, heads.kv_head) {
    from_ = keys.base + static_cast<i32>(block_index().z) * keys.split;
    to_ = min_of(keys.end, from_ + keys.split);
    count_ = to_ > from_ ? (to_ - from_ + kTileKeys - 1) / kTileKeys : 0;
    tiles_.select(sequence, {max_of(keys.first, from_), to_});
#pragma unroll
    for (int tile = 0; tile < kAhead; ++tile) send_for(tile);
  }

  // Key `fresh`, if it is in the split, is in the block's memory and not in the cache; -1: there is none. The queries
  // were stored in the block's memory before this; no barrier has been passed since.
  GPU_FUNCTION void attend(i32 fresh) {
    Running<dim> running;
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      running.maximum[slot] = kNoMaximum;
      running.sum[slot] = 0;
    }
    const u32 own_key = wave_index() * kTile;
    for (i32 tile = 0; tile < count_; ++tile) {
      const i32 base = from_ + tile * kTileKeys;
      auto& slot = memory_.slots[tile % kSlots];
      tiles_.template end_keys<2 * (kAhead - 1)>();
      tiles_.template end_values<2 * (kAhead - 1)>();
      if (fresh >= base && fresh < base + kTileKeys) put_fresh(slot, fresh - base);
      barrier();
      send_for(tile + kAhead);  // where the tile before this one was
      Accumulator scores = multiply_keys<dim>(memory_.queries, slot.keys, own_key);
      if (a_.softcap > 0) cap(a_.softcap, scores);
      if (base < keys_.first || base + kTileKeys > to_) hide(base + static_cast<i32>(own_key), scores);
      apply_softmax(running, scores);
      const Fragment weights = to_fragment(scores);
#pragma unroll
      for (int d = 0; d < running.kDimTiles; ++d) {
        multiply(weights, Tiles::Values::load(slot.values, own_key, d * kTile), running.output[d]);
      }
      if constexpr (kSlots == kAhead) barrier();
    }
    const i64 row = static_cast<i64>(block_index().x) * a_.q.heads + heads_.first;
    store_outputs<dim>(a_, row, heads_, keys_.splits, running, memory_);
    if (keys_.splits > 1) merge_splits<dim, kMatrixHeads, kThreads>(a_, row, heads_, keys_.splits);
  }

 private:
  GPU_FUNCTION void send_for(i32 tile) {
    if (tile < count_) {
      auto& slot = memory_.slots[tile % kSlots];
      tiles_.begin_keys(from_ + tile * kTileKeys, slot.keys);
      tiles_.begin_values(from_ + tile * kTileKeys, slot.values);
    } else {
      tiles_.begin_none();
      tiles_.begin_none();
    }
  }
  GPU_FUNCTION void put_fresh(typename BlockMemory<dim>::Slot& slot, i32 key) {
    barrier();  // all copies are there
    for (i32 d = static_cast<i32>(thread_index()); d < dim; d += kThreads) {
      slot.keys[Tiles::Keys::place(static_cast<u32>(d), static_cast<u32>(key))] = memory_.fresh_key[d];
      slot.values[Tiles::Values::place(static_cast<u32>(key), static_cast<u32>(d))] = memory_.fresh_value[d];
    }
  }
  // Scores of keys that the token does not see become the smallest of all.
  GPU_FUNCTION void hide(i32 base, Accumulator& scores) const {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 key = base + static_cast<i32>(column_of(i));
      if (key < keys_.first || key >= to_) scores.value[i] = 2 * kNoMaximum;
    }
  }

  const AttentionArgs& a_;
  const BlockHeads heads_;
  const Keys keys_;
  BlockMemory<dim>& memory_;
  Tiles tiles_;
  i32 from_, to_, count_;
};

template <int dim>
GPU_FUNCTION inline void attention(const AttentionArgs& a) {
  auto& memory = block_memory<BlockMemory<dim>>();
  ask_for_keys<kMatrixShareKeys, kTileKeys>(a, 2 * kTileKeys, 2);
  wait_for_previous();
  const i32 token = static_cast<i32>(block_index().x);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const bool known = in_table(a.table, a.kv, sequence, position);  // a token that is not has no keys, and gives zeros
  const Keys keys = known_keys<kMatrixShareKeys, kTileKeys>(a, known, position, position + 1);
  if (static_cast<i32>(block_index().z) >= keys.splits) return;
  const BlockHeads heads = block_heads(a);
  Share<dim> share(a, heads, sequence, keys, memory);
  const float* x = a.q.data + token * a.q.token_stride;
  keep_queries<dim>(a, heads, memory.queries, [&](i32 head, i32 d) { return x[head * a.q.head_stride + d]; });
  share.attend(-1);
}

// The same of one token whose key and value are not in the cache yet. Each block rotates and rounds them for itself;
// one of those that share a KV head writes them down, for later launches.
template <int dim>
GPU_FUNCTION inline void attention_step(const AttentionStepArgs& step) {
  auto& memory = block_memory<BlockMemory<dim>>();
  const AttentionArgs& a = step.attention;
  ask_for_keys<kMatrixShareKeys, kTileKeys>(a, 2 * kTileKeys, 2);
  wait_for_previous();
  const i32 sequence = a.sequence[0], position = a.positions[0];
  const bool known = in_table(a.table, a.kv, sequence, position);
  const Keys keys = known_keys<kMatrixShareKeys, kTileKeys>(a, known, position, position + 1);
  if (static_cast<i32>(block_index().z) >= keys.splits) return;
  const BlockHeads heads = block_heads(a);
  Share<dim> share(a, heads, sequence, keys, memory);
  const i32 d = static_cast<i32>(thread_index()) % dim, safe = min_of(d, a.kv.dim - 1);
  const Rotation rotation = rotation_of(step.rope, safe, position);
  keep_queries<dim>(a, heads, memory.queries, [&](i32 head, i32 element) {
    return rotated(step.rope, a.q.data + head * a.q.head_stride, element, rotation);
  });
  if (static_cast<i32>(thread_index()) < dim) {
    const bool inside = d < a.kv.dim;
    const float k = rotated(step.rope, step.k.data + heads.kv_head * step.k.head_stride, safe, rotation);
    const KvElement own_key = kv_element<false>(k, inside);
    const KvElement own_value = kv_element<false>(step.v.data[heads.kv_head * step.v.head_stride + safe], inside);
    memory.fresh_key[d] = inside ? own_key.half : Half{0};
    memory.fresh_value[d] = inside ? own_value.half : Half{0};
    if (known && inside) write_fresh<false>(a, heads, sequence, position, d, own_key, own_value);
  }
  share.attend(known ? position : -1);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ATTENTION(dim)                                                                                    \
  GPU_EARLY_MEMORY_KERNEL(attention_matrix_##dim, gabbro::gpu::GABBRO_GPU::kThreads,                             \
                          gabbro::gpu::GABBRO_GPU::BlockMemory<dim>, gabbro::gpu::AttentionArgs, attention<dim>) \
  GPU_EARLY_MEMORY_KERNEL(attention_step_matrix_##dim, gabbro::gpu::GABBRO_GPU::kThreads,                        \
                          gabbro::gpu::GABBRO_GPU::BlockMemory<dim>, gabbro::gpu::AttentionStepArgs,             \
                          attention_step<dim>)

GABBRO_ATTENTION(64)
GABBRO_ATTENTION(128)

#endif
