// Causal attention of few tokens over the paged cache on matrix cores: a block has a token, up to kMatrixHeads heads
// that share a KV head, and a split of the keys; tiles of it are always in flight. Each wave has every fourth group
// of 16 keys, with a separate maximum, sum and output; the waves' results are merged at the end.
//
// A tile of a GEMM has 16 rows and eight heads fill half of them: rows 8-15 hold the f16 residual of the queries and of
// the probabilities, so that results are as exact as in f32.
#include "kernels/attention/attention_splits.h"
#include "kernels/attention/cache_tiles.h"

#if defined(GABBRO_MATRIX_CORES)

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr i32 kTileKeys = 64;
inline constexpr int kWaves = kTileKeys / static_cast<int>(kTile);
inline constexpr int kThreads = kWaves * static_cast<int>(kWave);
static_assert(kMatrixHeads == static_cast<int>(kTile) / 2);

// Parts of tiles in the block's memory: a tile's keys come before its values. Two are under
// way while one is worked on: where copies pass through registers, there; else in the block's memory.
inline constexpr int kSlots = kCopiesPassRegisters ? 3 : 2;

// `parts`: of a tile's keys, and of its values. With two, blocks want half the memory.
template <int dim, int parts = 1>
struct BlockMemory {
  static_assert(parts == 1 || kCopiesPassRegisters, "parts of the same tile would be in the same registers");
  using Tiles = CacheTiles<false, dim, kTileKeys, kThreads, parts>;
  static constexpr u32 kPitch = dim + 8;
  alignas(16) Half queries[kTile * kPitch];
  struct alignas(16) Slot {
    static constexpr u32 kKeys = Tiles::Keys::kElements, kValues = Tiles::Values::kElements;
    Half elements[kKeys < kValues ? kValues : kKeys];
  } slots[kSlots];
  float maxima[kWaves][kMatrixHeads];
  float sums[kWaves][kMatrixHeads];
  Half fresh_key[dim];  // of the token itself, where they are not in the cache yet
  Half fresh_value[dim];

  // Number `number` of a tile's parts.
  GPU_FUNCTION Half* part(i32 tile, int number) { return slots[(2 * parts * tile + number) % kSlots].elements; }

  // [kWaves][kMatrixHeads][kOutputPitch], where tiles were.
  static constexpr int kOutputPitch = dim + 8;  // two heads at most share a bank
  GPU_FUNCTION float* outputs() {
    static_assert(sizeof(slots) >= sizeof(float) * kWaves * kMatrixHeads * kOutputPitch);
    return reinterpret_cast<float*>(slots);
  }
  // [kMatrixHeads][kSharePitch]: the block's values of each head, their maximum and total, for the others of a cluster.
  static constexpr int kSharePitch = dim + 2;
  GPU_FUNCTION float* share() {
    constexpr int kOutputs = kWaves * kMatrixHeads * kOutputPitch;
    static_assert(sizeof(slots) >= sizeof(float) * (kOutputs + kMatrixHeads * kSharePitch));
    return outputs() + kOutputs;
  }
};

// Element d of the heads that a thread keeps, every kStep'th, as it is stored. All are loaded before the first is used
// or written to the block's memory, so that they arrive together (8 heads in sequence took 5 µs on an H200).
template <int dim>
struct QueryElements {
  static constexpr int kStep = kThreads / dim;
  float value[kMatrixHeads / kStep];

  GPU_FUNCTION static i32 first() { return static_cast<i32>(thread_index()) / dim; }

  GPU_FUNCTION void load(const AttentionArgs& a, const BlockHeads& heads, i32 token, i32 d) {
    const float* x = head_of(a.q, token, heads.first) + d;
#pragma unroll
    for (int i = 0; i < kMatrixHeads / kStep; ++i) {
      const i32 head = i * kStep + first();
      value[i] = head < heads.count ? x[head * a.q.head_stride] : 0;
    }
  }

  // Writes the queries, scaled so that scores are logarithms to the base 2: the f16 values to the first eight rows,
  // their residuals to the others.
  GPU_FUNCTION void keep(const AttentionArgs& a, Half* queries) const {
    const i32 d = static_cast<i32>(thread_index()) % dim;
#pragma unroll
    for (int i = 0; i < kMatrixHeads / kStep; ++i) {
      const float x = d < a.kv.dim ? value[i] * (a.scale * kLog2E) : 0;
      const Half high = to_half(min_of(max_of(x, -kLargestHalf), kLargestHalf));
      Half* to = queries + static_cast<u32>(i * kStep + first()) * BlockMemory<dim>::kPitch + d;
      to[0] = high;
      to[kMatrixHeads * BlockMemory<dim>::kPitch] = to_half(min_of(max_of(x - to_float(high), -1.0f), 1.0f));
    }
  }
};

// The thread's element of a head; threads past the last one have that.
template <int dim>
GPU_FUNCTION inline i32 element_of(const AttentionArgs& a) {
  return min_of(static_cast<i32>(thread_index()) % dim, a.kv.dim - 1);
}

// A wave's running softmax.
template <int dim>
struct Running {
  static constexpr int kDimTiles = dim / static_cast<int>(kTile);
  Accumulator output[kDimTiles];
  float maximum[kRowSlots];
  float sum[kRowSlots];  // this lane's share
};

// The queries as fragments: in registers where the block's memory, not registers, limits the blocks of a
// multiprocessor.
template <int dim, bool holds>
class QueryFragments {
 public:
  GPU_FUNCTION explicit QueryFragments(const Half* queries) : queries_(queries) {}
  GPU_FUNCTION void hold() {
    if constexpr (holds) {
#pragma unroll
      for (int d = 0; d < kCount; ++d) held_[d] = load(d);
    }
  }
  GPU_FUNCTION Fragment operator[](int d) const { return holds ? held_[d] : load(d); }

 private:
  static constexpr int kCount = dim / static_cast<int>(kTile);
  GPU_FUNCTION Fragment load(int d) const { return load_fragment(queries_ + d * kTile, BlockMemory<dim>::kPitch); }
  const Half* queries_;
  Fragment held_[holds ? kCount : 1];
};

// Adds products of a part of the queries' elements with the wave's keys of a tile. There are two sums, so that fewer
// products wait for each other.
template <class Memory, class Queries>
GPU_FUNCTION inline void multiply_keys(const Queries& queries, const Half* keys, int part, u32 key,
                                       Accumulator (&sums)[2]) {
  using Tiles = typename Memory::Tiles;
  constexpr int kCount = Tiles::kPartDim / static_cast<int>(kTile);
#pragma unroll
  for (int d = 0; d < kCount; ++d) {
    multiply(queries[part * kCount + d], Tiles::Keys::load(keys, d * kTile, key), sums[d % 2]);
  }
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
template <bool cluster, int dim, int parts>
GPU_FUNCTION inline void store_outputs(const AttentionArgs& a, i64 row, const BlockHeads& heads, i32 splits,
                                       const Running<dim>& running, BlockMemory<dim, parts>& memory) {
  constexpr i32 kPitch = BlockMemory<dim>::kOutputPitch;
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
        outputs[(static_cast<u32>(wave) * kMatrixHeads + head) * kPitch + tile * kTile + column_of(i)] = whole.value[i];
    }
  }
  barrier();
  // Lane kMatrixHeads·w + head has the factor of that wave's output; all lanes of a head have its maximum and total.
  static_assert(kWaves * kMatrixHeads == 32);
  const u32 part = lane() / kMatrixHeads % kWaves, lane_head = lane() % kMatrixHeads;
  const float maximum = memory.maxima[part][lane_head];
  float highest = maximum;
  for (u32 step = kMatrixHeads; step < 32; step *= 2) highest = max_of(highest, shuffle_xor(highest, step));
  const float factor = quick_exp2(maximum - highest);
  float total = factor * memory.sums[part][lane_head];
  for (u32 step = kMatrixHeads; step < 32; step *= 2) total += shuffle_xor(total, step);
  for (i32 i = static_cast<i32>(thread_index()); i < heads.count * dim; i += kThreads) {
    const i32 head = i / dim, d = i % dim;  // a wave's lanes have the same head
    float value = 0;
#pragma unroll
    for (int w = 0; w < kWaves; ++w) {
      value +=
          shuffle(factor, static_cast<u32>(w * kMatrixHeads + head)) * outputs[(w * kMatrixHeads + head) * kPitch + d];
    }
    const float head_maximum = shuffle(highest, static_cast<u32>(head)) * kLn2,
                head_total = shuffle(total, static_cast<u32>(head));
    if constexpr (cluster) {
      if (splits > 1) {
        float* const share = memory.share() + head * BlockMemory<dim>::kSharePitch;
        share[d] = value;
        share[dim] = head_maximum;
        share[dim + 1] = head_total;
        continue;
      }
    }
    if (d < a.kv.dim) store_split(a, row + head, splits, d, value, head_maximum, head_total);
  }
}

#ifdef GABBRO_CLUSTERS
// Puts the splits of a cluster together, in their order, each block a part of the results.
template <int dim>
GPU_FUNCTION inline void merge_cluster(const AttentionArgs& a, i64 row, const BlockHeads& heads, i32 splits,
                                       BlockMemory<dim>& memory) {
  cluster_barrier();
  const i32 first = static_cast<i32>(block_index().z * kThreads + thread_index());
  for (i32 i = first; i < heads.count * dim; i += splits * kThreads) {
    const i32 head = i / dim, d = i % dim;
    const float* const share = memory.share() + head * BlockMemory<dim>::kSharePitch;
    float values[kMaxCluster], maxima[kMaxCluster], totals[kMaxCluster], highest = kNoMaximum;
#pragma unroll
    for (int s = 0; s < kMaxCluster; ++s) {
      const auto of = static_cast<u32>(s);
      values[s] = s < splits ? *of_block(share + d, of) : 0;
      maxima[s] = s < splits ? *of_block(share + dim, of) : kNoMaximum;
      totals[s] = s < splits ? *of_block(share + dim + 1, of) : 0;
      highest = max_of(highest, maxima[s]);
    }
    float value = 0, total = 0;
#pragma unroll
    for (int s = 0; s < kMaxCluster; ++s) {
      const float factor = exp(maxima[s] - highest);
      value = fma(factor, values[s], value);
      total = fma(factor, totals[s], total);
    }
    if (d < a.kv.dim)
      a.y[(row + head) * a.kv.dim + d] = value * final_factor(a.sinks, (row + head) % a.q.heads, highest, total);
  }
  leave_cluster();
}
#endif

// The block's split of a token's keys: first a part of a tile is sent for, then queries are made. With `cluster` the
// blocks of all splits are a cluster; tiles in several `parts` are for keys in one split.
template <int dim, bool cluster, int parts = 1>
class KeySplit {
 public:
  using Memory = BlockMemory<dim, parts>;
  using Tiles = typename Memory::Tiles;

  GPU_FUNCTION KeySplit(const AttentionArgs& a, const BlockHeads& heads, i32 sequence, const Keys& keys, Memory& memory)
      : a_(a), heads_(heads), keys_(keys), memory_(memory), tiles_(a, heads.kv_head) {
    from_ = keys.base + static_cast<i32>(block_index().z) * keys.split;
    to_ = min_of(keys.end, from_ + keys.split);
    count_ = to_ > from_ ? (to_ - from_ + kTileKeys - 1) / kTileKeys : 0;
    tiles_.select(sequence, {max_of(keys.first, from_), to_});
    send(0, 0);
  }
  // Requests the other parts that there is room for. Earlier loads do not queue after them: queries of 64
  // sequences arrive 1 us sooner on an H200.
  GPU_FUNCTION void send_more() {
#pragma unroll
    for (int part = 1; part < kSlots; ++part) send(0, part);
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
    constexpr bool kHoldsQueries = kCopiesPassRegisters && parts == 1;
    QueryFragments<dim, kHoldsQueries> queries(memory_.queries);
    for (i32 tile = 0; tile < count_; ++tile) {
      const i32 base = from_ + tile * kTileKeys;
      const u32 fresh_key = static_cast<u32>(fresh - base);
      Accumulator sums[2];
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        Half* const keys = memory_.part(tile, part);
        tiles_.template end_keys<1>();
        if (fresh_key < kTileKeys) put_fresh_key(keys, fresh_key, part);
        barrier();
        if (kSlots == 2 || tile > 0 || part > 0) send(tile, part + 2);  // where the part before this was
        if (tile == 0 && part == 0) queries.hold();
        multiply_keys<Memory>(queries, keys, part, own_key, sums);
      }
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) sums[0].value[i] += sums[1].value[i];
      Accumulator scores = add_row_pairs(sums[0]);
      if (a_.softcap > 0) cap(a_.softcap, scores);
      if (base < keys_.first || base + kTileKeys > to_) hide(base + static_cast<i32>(own_key), scores);
      apply_softmax(running, scores);
      const Fragment weights = to_fragment(scores);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        Half* const values = memory_.part(tile, parts + part);
        tiles_.template end_values<1>();
        if (fresh_key / Tiles::kPartKeys == static_cast<u32>(part))
          put_fresh_value(values, fresh_key % Tiles::kPartKeys);
        barrier();
        send(tile, parts + part + 2);
        if (own_key / Tiles::kPartKeys != static_cast<u32>(part)) continue;
#pragma unroll
        for (int d = 0; d < running.kDimTiles; ++d) {
          multiply(weights, Tiles::Values::load(values, own_key % Tiles::kPartKeys, d * kTile), running.output[d]);
        }
      }
    }
    const i64 row = static_cast<i64>(block_index().x) * a_.q.heads + heads_.first;
    store_outputs<cluster>(a_, row, heads_, keys_.splits, running, memory_);
    if constexpr (parts == 1) {
      if (keys_.splits == 1) return;
#ifdef GABBRO_CLUSTERS
      if constexpr (cluster) return merge_cluster<dim>(a_, row, heads_, keys_.splits, memory_);
#endif
      merge_splits<dim, kMatrixHeads, kThreads>(a_, row, heads_, keys_.splits);
    }
  }

 private:
  // Sends for part `part` of the tile's keys and values, or, after those, of the next tile's.
  GPU_FUNCTION void send(i32 tile, int part) {
    tile += part / (2 * parts);
    part %= 2 * parts;
    if (tile >= count_) return tiles_.begin_none();
    const i32 base = from_ + tile * kTileKeys;
    if (part < parts) {
      tiles_.begin_keys(base, memory_.part(tile, part), part);
    } else {
      tiles_.begin_values(base, memory_.part(tile, part), part - parts);
    }
  }
  GPU_FUNCTION void put_fresh_key(Half* keys, u32 key, int part) {
    barrier();  // all copies are there
    for (u32 d = thread_index(); d < Tiles::kPartDim; d += kThreads) {
      keys[Tiles::Keys::place(d, key)] = memory_.fresh_key[part * Tiles::kPartDim + d];
    }
  }
  GPU_FUNCTION void put_fresh_value(Half* values, u32 key) {
    barrier();
    for (u32 d = thread_index(); d < dim; d += kThreads) values[Tiles::Values::place(key, d)] = memory_.fresh_value[d];
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
  Memory& memory_;
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
  const BlockHeads heads = block_heads(a);
  QueryElements<dim> queries;
  queries.load(a, heads, token, element_of<dim>(a));
  const bool known = in_table(a.table, a.kv, sequence, position);  // a token that is not has no keys, and gives zeros
  const Keys keys = known_keys<kMatrixShareKeys, kTileKeys>(a, known, position, position + 1);
  if (static_cast<i32>(block_index().z) >= keys.splits) return;
  KeySplit<dim, false> split(a, heads, sequence, keys, memory);
  split.send_more();
  queries.keep(a, memory.queries);
  split.attend(-1);
}

// For batches: with tiles in two parts four blocks of a multiprocessor run at a time.
inline constexpr int kCompactParts = 2;
using CompactMemory = BlockMemory<128, kCompactParts>;

// Attention for a token whose key and value are not in the cache yet. Each block rotates and rounds them for itself;
// one block of a KV head's stores them in the cache, for later launches. Splits of a cluster exchange their results
// faster, so that they may have fewer keys.
template <int dim, bool cluster, int parts = 1>
GPU_FUNCTION inline void attention_step(const AttentionStepArgs& step) {
  constexpr i32 kLeastKeys = cluster ? kTileKeys : kMatrixShareKeys;
  auto& memory = block_memory<BlockMemory<dim, parts>>();
  const AttentionArgs& a = step.attention;
  if (!a.settled) {
    ask_for_keys<kLeastKeys, kTileKeys>(a, 2 * kTileKeys, 2);
    wait_for_previous();
  }
  const i32 token = static_cast<i32>(block_index().x);
  const i32 sequence = a.sequence[token], position = a.positions[token];
  const BlockHeads heads = block_heads(a);
  const i32 d = static_cast<i32>(thread_index()) % dim, safe = element_of<dim>(a), other = partner(step.rope, safe);
  const float frequency = inverse_frequency(step.rope, safe);
  const bool known = in_table(a.table, a.kv, sequence, position);
  const Keys keys = known_keys<kLeastKeys, kTileKeys>(a, known, position, position + 1);
  if (static_cast<i32>(block_index().z) >= keys.splits) return;
  KeySplit<dim, cluster, parts> split(a, heads, sequence, keys, memory);
  const Rotation rotation = rotation_by(step.rope, safe, position, frequency);
  if (a.settled) wait_for_previous();
  QueryElements<dim> queries, partners;
  queries.load(a, heads, token, safe);
  partners.load(a, heads, token, other);
  const float* key = head_of(step.k, token, heads.kv_head);
  const float k = key[safe], k_partner = key[other], v = head_of(step.v, token, heads.kv_head)[safe];
  split.send_more();
#pragma unroll
  for (int i = 0; i < kMatrixHeads / QueryElements<dim>::kStep; ++i) {
    queries.value[i] = rotated(step.rope, queries.value[i], partners.value[i], safe, rotation);
  }
  queries.keep(a, memory.queries);
  if (static_cast<i32>(thread_index()) < dim) {
    const bool inside = d < a.kv.dim;
    const KvElement own_key = kv_element<KvType::kF16>(rotated(step.rope, k, k_partner, safe, rotation), inside);
    const KvElement own_value = kv_element<KvType::kF16>(v, inside);
    memory.fresh_key[d] = inside ? Half{own_key.bits} : Half{0};
    memory.fresh_value[d] = inside ? Half{own_value.bits} : Half{0};
    if (known && inside) write_fresh<KvType::kF16>(a, heads, sequence, position, d, own_key, own_value);
  }
  split.attend(known ? position : -1);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_STEP(name, dim, cluster)                                                                               \
  GPU_EARLY_MEMORY_KERNEL(name##_##dim, gabbro::gpu::GABBRO_GPU::kThreads, gabbro::gpu::GABBRO_GPU::BlockMemory<dim>, \
                          gabbro::gpu::AttentionStepArgs, attention_step<dim, cluster>)
#define GABBRO_ATTENTION(dim)                                                                                    \
  GPU_EARLY_MEMORY_KERNEL(attention_matrix_##dim, gabbro::gpu::GABBRO_GPU::kThreads,                             \
                          gabbro::gpu::GABBRO_GPU::BlockMemory<dim>, gabbro::gpu::AttentionArgs, attention<dim>) \
  GABBRO_STEP(attention_step_matrix, dim, false)

GABBRO_ATTENTION(64)
GABBRO_ATTENTION(128)
#ifdef GABBRO_COPIES_PASS_REGISTERS
GPU_EARLY_BLOCKS_KERNEL(attention_step_compact_128, gabbro::gpu::GABBRO_GPU::kThreads, 4,
                        gabbro::gpu::GABBRO_GPU::CompactMemory, gabbro::gpu::AttentionStepArgs,
                        attention_step<128, false, gabbro::gpu::GABBRO_GPU::kCompactParts>)
#endif
#ifdef GABBRO_CLUSTERS
GABBRO_STEP(attention_step_cluster, 64, true)
GABBRO_STEP(attention_step_cluster, 128, true)
#endif

#endif
