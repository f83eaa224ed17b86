// Weights times a small batch of tokens (batch_products.h): a wave a tile of rows, a block of waves a tile of tokens,
// and K in splits where rows are few.
#include "kernels/linear/batch_activations.h"
#include "kernels/linear/linear_finish.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// The rows of a wave, up to `end`. With kSiluMul waves of even number have the first matrix's, and those after them the
// second's.
struct BatchRows {
  int matrix;
  i32 row, end;
};

GPU_FUNCTION inline BatchRows batch_rows(const LinearBatchArgs& a, i32 tile) {
  int matrix = 0;
  if (a.epilogue == Epilogue::kSiluMul) {
    matrix = tile % 2;
    tile /= 2;
  } else {
    while (tile >= batch_tiles(a.matrices[matrix].rows, a.tile_rows, a.epilogue)) {
      tile -= batch_tiles(a.matrices[matrix++].rows, a.tile_rows, a.epilogue);
    }
  }
  const i32 row = tile * a.tile_rows;
  return {matrix, row, min_of(row + a.tile_rows, a.matrices[matrix].rows)};
}

// body(i, the tile's token, row) for each of the wave's sums first + i that is stored, of `count`.
template <int count, class Body>
GPU_FUNCTION inline void for_results(const LinearBatchArgs& a, const BatchRows& rows, i32 token, i32 first, Body body) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const SumPlace at = sum_place(first + i);
    const i32 row = rows.row + at.row;
    if (token + at.token < a.tokens && row < rows.end) body(i, at.token, row);
  }
}

// State of a tile's splits: a count of those that have stored their sums, and from bit kFirstLeft on a bit for each
// that did not wait for the others. Zeros before and after a launch.
struct SplitState {
  static constexpr u32 kArrived = 0xff, kFirstLeft = 8;
  u32* word;
  u32* ended;  // number of blocks that will not look at it again

  GPU_FUNCTION explicit SplitState(u32* counters)
      : word(counters + 2 * (block_index().y * grid_size().x + block_index().x)), ended(word + 1) {}
  GPU_FUNCTION u32 arrived() const { return load_shared_result(word) & kArrived; }
};

// The splits whose share of the sums this block adds, as bits: by one thread, after the block's sums were stored.
// Blocks wait for each other, so that each adds its own share; one that has waited too long (not all need run at the
// same time) leaves its share to the last one.
GPU_FUNCTION inline u32 shares_to_add(const SplitState& state, u32 splits) {
  constexpr int kPatience = 128;  // 0.1 ms
  const u32 own = 1u << block_index().z;
  u32 before = atomic_increment(state.word), shares = own;
  if ((before & SplitState::kArrived) + 1 == splits) {
    shares |= before >> SplitState::kFirstLeft;
  } else {
    int tries = 0;
    while (tries < kPatience && state.arrived() < splits) ++tries;
    if (tries == kPatience) {
      before = atomic_add(state.word, own << SplitState::kFirstLeft);
      if ((before & SplitState::kArrived) < splits) shares = 0;
    }
  }
  if (atomic_increment(state.ended) + 1 == splits) {
    *state.word = 0;
    *state.ended = 0;
  }
  return shares;
}

// The wave's sums, times the scale of a split, go to `to`: a lane's pair n, of sums 2n and 2n + 1, to to[n * kWave].
template <int token_tiles, class Activations>
GPU_FUNCTION inline void store_sums(const Accumulator (&sums)[token_tiles], const Activations& activations,
                                    FloatPair* to) {
  float scaled[token_tiles * Accumulator::kCount];  // all scales are loaded before the first sum is stored
  for_sums(sums,
           [&](int number, float sum) { scaled[number] = sum * activations.split_scale(sum_place(number).token); });
  for_sums(sums, [&](int number, float) {
    if (number % 2 == 0) to[number / 2 * static_cast<int>(kWave)] = {scaled[number], scaled[number + 1]};
  });
}

// A part of the splits' sums, which a wave adds in the order of the splits; it stores the results: as
// many neighboring pairs of every lane as others have. All of it runs once, so that its code is short: the instructions
// are waited for.
template <int token_tiles>
class SplitShare {
 public:
  static constexpr i32 kPairs = token_tiles * Accumulator::kCount / 2;

  GPU_FUNCTION SplitShare(const LinearBatchArgs& a, const BatchRows& rows, i32 token, i32 share)
      : a_(a), m_(a.matrices[rows.matrix]), rows_(rows), token_(token), splits_(static_cast<i32>(grid_size().z)) {
    begin(share);
  }
  GPU_FUNCTION void begin(i32 share) {
    const i32 pairs = static_cast<i32>((static_cast<u32>(kPairs - 1) + grid_size().z) / grid_size().z);
    pair_ = share * pairs;
    end_ = min_of(pair_ + pairs, kPairs);
  }
  // Bias and residual of the next results. The sums need not be there yet.
  GPU_FUNCTION void load_addends() {
    const float* const bias = m_.bias;
    const float* const second_bias = a_.matrices[1].bias;
    if (bias != nullptr) for_next([&](int i, i32, i32 row) { bias_[i] = bias[row]; });
    if (gated() && second_bias != nullptr) for_next([&](int i, i32, i32 row) { other_[i] = second_bias[row]; });
    if (a_.epilogue == Epilogue::kAdd)
      for_next([&](int i, i32 token, i32 row) { other_[i] = residual_of(a_, m_, row, token_ + token); });
  }
  // sums_of(split, offset): the lane's pairs of a split, from `offset` on; load(p) one of them. Sums of the second
  // matrix are `to_second` after the sums of the first.
  template <class Activations, class SumsOf, class Load>
  GPU_FUNCTION void store(const Activations& activations, float undo, i32 to_second, SumsOf sums_of, Load load) {
    for (;;) {
      float first[kHeld] = {}, second[kHeld] = {};
      add(sums_of, pair_ * kWidth, load, first);
      if (gated()) add(sums_of, to_second + pair_ * kWidth, load, second);
      const auto scale_of = [&](i32 token) { return activations.scale(token) * undo; };
      const auto result = [&](i32 token, i32 row) -> float& {
        return m_.y[static_cast<i64>(token_ + token) * m_.rows + row];
      };
      if (gated()) {
        for_next([&](int i, i32 token, i32 row) {
          const float scale = scale_of(token);
          result(token, row) = silu(first[i] * scale + bias_[i]) * (second[i] * scale + other_[i]);
        });
      } else {
        for_next(
            [&](int i, i32 token, i32 row) { result(token, row) = first[i] * scale_of(token) + bias_[i] + other_[i]; });
      }
      pair_ += kHeldPairs;
      if (pair_ >= end_) return;
      load_addends();
    }
  }

 private:
  static constexpr i32 kWidth = static_cast<i32>(kWave);
  // Pairs that are added before the first result is stored, and their sums.
  static constexpr int kHeldPairs = kPairs < 8 ? 1 : kPairs < 16 ? 2 : 3, kHeld = 2 * kHeldPairs;

  GPU_FUNCTION bool gated() const { return a_.epilogue == Epilogue::kSiluMul; }

  // All parts of several splits are sent for before the first is added.
  template <class SumsOf, class Load>
  GPU_FUNCTION void add(SumsOf sums_of, i32 offset, Load load, float (&sums)[kHeld]) const {
    constexpr i32 kTogether = 8;
#pragma unroll 1
    for (i32 begin = 0; begin < splits_; begin += kTogether) {
      FloatPair parts[kTogether][kHeldPairs];
#pragma unroll
      for (i32 s = 0; s < kTogether; ++s) {
        const FloatPair* const from = sums_of(min_of(begin + s, splits_ - 1), offset);
#pragma unroll
        for (int i = 0; i < kHeldPairs; ++i) {
          const bool there = begin + s < splits_ && pair_ + i < end_;
          parts[s][i] = there ? load(from + i * kWidth) : FloatPair{0, 0};
        }
      }
#pragma unroll
      for (i32 s = 0; s < kTogether; ++s) {
#pragma unroll
        for (int i = 0; i < kHeldPairs; ++i) {
          sums[2 * i] += parts[s][i].a;
          sums[2 * i + 1] += parts[s][i].b;
        }
      }
    }
  }

  template <class Body>
  GPU_FUNCTION void for_next(Body body) const {
#pragma unroll
    for (int i = 0; i < kHeldPairs; ++i) {
      if (pair_ + i >= end_) continue;
      for_results<2>(a_, rows_, token_, 2 * (pair_ + i),
                     [&](int k, i32 token, i32 row) { body(2 * i + k, token, row); });
    }
  }

  const LinearBatchArgs& a_;
  const LinearMatrix& m_;
  const BatchRows& rows_;
  i32 token_, splits_, pair_, end_;
  float bias_[kHeld] = {}, other_[kHeld] = {};
};

// Exchanges the sums of blocks that have splits of the same rows, and stores the results. `has`: whether the wave has
// rows. `memory`: the block's, which waves may still read before the first barrier here.
template <int token_tiles, class Activations>
GPU_FUNCTION inline void store_splits(const LinearBatchArgs& a, const BatchRows& rows, i32 tile, i32 token,
                                      Activations& activations, float undo, bool has, u32* memory,
                                      const Accumulator (&sums)[token_tiles]) {
  using Share = SplitShare<token_tiles>;
  constexpr i32 kWidth = static_cast<i32>(kWave), kLanePairs = Share::kPairs * kWidth;
  const i32 splits = static_cast<i32>(grid_size().z), split = static_cast<i32>(block_index().z);
  // With kSiluMul waves of odd number have the second matrix's, and those before them store.
  const bool stores = has && (a.epilogue != Epilogue::kSiluMul || wave_index() % 2 == 0);
#ifdef GABBRO_CLUSTERS
  if (cluster_blocks() > 1) {
    FloatPair* const own = reinterpret_cast<FloatPair*>(memory) + static_cast<i32>(wave_index()) * kLanePairs + lane();
    barrier();
    if (has) store_sums(sums, activations, own);
    activations.begin_splits(true);
    cluster_arrive();
    Share share(a, rows, token, split);
    if (stores) share.load_addends();
    cluster_wait();
    activations.end_splits(true);
    if (stores) {
      share.store(
          activations, undo, kLanePairs, [&](i32 s, i32 offset) { return of_block(own + offset, static_cast<u32>(s)); },
          [](const FloatPair* pair) { return *pair; });
    }
    return leave_cluster();
  }
#endif
  FloatPair* const partials = reinterpret_cast<FloatPair*>(a.partials) +
                              (static_cast<i64>(block_index().y) * a.tiles + tile) * splits * kLanePairs +
                              static_cast<i32>(lane());
  activations.sync_scales();
  if (has) store_sums(sums, activations, partials + split * kLanePairs);
  activations.begin_splits(false);
  Share share(a, rows, token, split);
  if (stores) share.load_addends();
  release_block();
  if (thread_index() == 0) {
    *memory = shares_to_add(SplitState(a.arrived), static_cast<u32>(splits));
    acquire_for_block();
  }
  barrier();
  const u32 shares = *memory;
  acquire();
  activations.end_splits(false);
  if (!stores) return;
  for (i32 i = 0; i < splits; ++i) {
    const i32 number = split + i - (split + i < splits ? 0 : splits);  // its own share, then those left to it
    if ((shares >> number & 1) == 0) continue;
    if (i > 0) {
      share.begin(number);
      share.load_addends();
    }
    share.store(
        activations, undo, splits * kLanePairs, [&](i32 s, i32 offset) { return partials + s * kLanePairs + offset; },
        [](const FloatPair* pair) { return load_shared_result(pair); });
  }
}

// The products of a wave, which `sums` are, and its activations.
template <class Weights, int tile_tokens, class Activations>
GPU_FUNCTION inline Activations multiply_rows(const LinearBatchArgs& a, const Weights& weights, i32 token, i32 begin,
                                              i32 end, Accumulator (&sums)[tile_tokens / static_cast<int>(kTile)]) {
  const auto make = [&] { return Activations(a, token); };
  if constexpr (Activations::kFree)
    return multiply_freely<Weights, tile_tokens>(weights, begin, end, make, sums);
  else
    return multiply_steps<Weights, tile_tokens>(weights, begin, end, make, sums);
}

template <class Weights, int tile_tokens, class Activations = StageCopies<tile_tokens>>
GPU_FUNCTION inline void linear_batch(const LinearBatchArgs& a) {
  constexpr int kTokenTiles = tile_tokens / static_cast<int>(kTile);
  const i32 tile = static_cast<i32>(block_index().x) * kBatchWaves + static_cast<i32>(wave_index());
  const i32 token = static_cast<i32>(block_index().y) * tile_tokens;
  const bool has = tile < a.tiles;
  const BatchRows rows = batch_rows(a, min_of(tile, a.tiles - 1));
  const i32 depth = (a.columns + kBatchDepth - 1) / kBatchDepth * kBatchDepth;
  const auto split = static_cast<i32>(block_index().z), splits = static_cast<i32>(grid_size().z);
  const Weights weights(a.matrices[rows.matrix], rows.row, rows.end, a.columns);
  Accumulator sums[kTokenTiles];
  Activations activations = multiply_rows<Weights, tile_tokens, Activations>(
      a, weights, token, batch_part(depth, split, splits) / kBatchDepth,
      batch_part(depth, split + 1, splits) / kBatchDepth, sums);
  auto& memory = block_memory<BatchMemory<tile_tokens>>();
  if (splits > 1) {
    auto* const word = reinterpret_cast<u32*>(memory.x);
    return store_splits(a, rows, tile, token, activations, Weights::kUndo, has, word, sums);
  }
  activations.end();
  const bool paired = a.epilogue == Epilogue::kSiluMul;
  const LinearMatrix& m = a.matrices[paired ? 0 : rows.matrix];
  const auto scale_of = [&](i32 own_token) {
    return activations.split_scale(own_token) * activations.scale(own_token) * Weights::kUndo;
  };
  if (paired) {
    const i32 block_rows = kBatchWaves / 2 * a.tile_rows, first_row = static_cast<i32>(block_index().x) * block_rows;
    return for_pairs<tile_tokens>(
        sums, a.tile_rows, min_of(tile_tokens, a.tokens - token), scale_of,
        [&](i32 own_token, i32 own, const Vec16& first, const Vec16& second) {
          const i32 row = first_row + own, count = min_of(block_rows - own, m.rows - row);
          if (count <= 0) return;
          Vec16 results;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float value = bits_to_float(first.word[i]), factor = bits_to_float(second.word[i]);
            results.word[i] = float_to_bits(finished(a, m, min_of(row + i, m.rows - 1), value, factor, 0));
          }
          store_rows(m.y + static_cast<i64>(token + own_token) * m.rows + row, results, count);
        });
  }
  activations.sync_scales();
  if (!has) return;
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t) {
    constexpr int kCount = Accumulator::kCount;
    const auto for_tile = [&](auto body) { for_results<kCount>(a, rows, token, t * kCount, body); };
    float residuals[kCount] = {};
    for_tile([&](int i, i32 to, i32 row) { residuals[i] = residual_of(a, m, row, token + to); });
    for_tile([&](int i, i32 to, i32 row) {
      const float bias = m.bias != nullptr ? m.bias[row] : 0;
      m.y[static_cast<i64>(token + to) * m.rows + row] = sums[t].value[i] * scale_of(to) + bias + residuals[i];
    });
  }
}

// Up to kOwnTokens tokens, whose x the blocks convert.
template <class Weights>
GPU_FUNCTION inline void linear_batch_own(const LinearBatchArgs& a) {
  linear_batch<Weights, static_cast<int>(kTile), OwnActivations<Weights::kBlocks>>(a);
}

template <class T, int tile_tokens>
GPU_FUNCTION inline void linear_batch_plain(const LinearBatchArgs& a) {
  linear_batch<BatchVectors<T>, tile_tokens, StepCopies<tile_tokens>>(a);
}
template <Packing p, int tile_tokens>
GPU_FUNCTION inline void linear_batch_blocks(const LinearBatchArgs& a) {
  linear_batch<BatchBlocks<p>, tile_tokens>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_NAMED(name, tile, ...)                                                                               \
  GPU_EARLY_BLOCKS_KERNEL(linear_##name, gabbro::gpu::kBatchThreads, 2, gabbro::gpu::GABBRO_GPU::BatchMemory<tile>, \
                          gabbro::gpu::LinearBatchArgs, __VA_ARGS__)
#define GABBRO_BATCH(name, tile, ...) GABBRO_NAMED(name##_batch_##tile, tile, __VA_ARGS__)
#define GABBRO_OWN(name, Weights) GABBRO_NAMED(name##_batch_8, 16, linear_batch_own<gabbro::gpu::GABBRO_GPU::Weights>)
#define GABBRO_PLAIN(name, T, tile) GABBRO_BATCH(name, tile, linear_batch_plain<gabbro::gpu::T, tile>)
GABBRO_OWN(f16, BatchVectors<gabbro::gpu::Half>)
GABBRO_OWN(bf16, BatchVectors<gabbro::gpu::BFloat>)
GABBRO_PLAIN(f16, Half, 16)
GABBRO_PLAIN(f16, Half, 32)
GABBRO_PLAIN(f16, Half, 64)
GABBRO_PLAIN(bf16, BFloat, 16)
GABBRO_PLAIN(bf16, BFloat, 32)
GABBRO_PLAIN(bf16, BFloat, 64)

#define GABBRO_BLOCKS(name, tile) GABBRO_BATCH(name, tile, linear_batch_blocks<GABBRO_PACKING(name), tile>)
#define GABBRO_FORMAT(name)                           \
  GABBRO_OWN(name, BatchBlocks<GABBRO_PACKING(name)>) \
  GABBRO_BLOCKS(name, 16)                             \
  GABBRO_BLOCKS(name, 32)                             \
  GABBRO_BLOCKS(name, 64)

GABBRO_FOR_EACH_FORMAT(GABBRO_FORMAT)
#endif
