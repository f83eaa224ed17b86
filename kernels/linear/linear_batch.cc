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

// State of a tile's splits: a count of those that have stored their sums, and from bit kFirstLeft on a bit for each
// that did not wait for the others. Zeros before and after a launch.
struct SplitState {
  static constexpr u32 kArrived = 0xff, kFirstLeft = 8;
  u32* word;
  u32* ended;  // number of blocks that will not look at it again

  GPU_FUNCTION explicit SplitState(u32* counters)
      : word(counters + 2 * (block_index().y * grid_size().x + block_index().x)), ended(word + 1) {}
  GPU_FUNCTION u32 arrived() const { return static_cast<u32>(peek(reinterpret_cast<const i32*>(word))) & kArrived; }
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

// Adds a share of the splits' sums, in the order of the splits, and stores the results: of every lane's sums share z
// has numbers z, z + splits ... sum_of(number, second) adds those of a number, of the wave's rows or of the second
// matrix's.
template <int token_tiles, class Activations, class SumOf>
GPU_FUNCTION inline void store_share(const LinearBatchArgs& a, const BatchRows& rows, i32 token,
                                     const Activations& activations, float undo, i32 share, SumOf sum_of) {
  constexpr i32 kCount = token_tiles * Accumulator::kCount;
  constexpr int kNumbers = kCount < 32 ? 2 : 4;  // sums that are added before the first is stored
  const i32 splits = static_cast<i32>(grid_size().z);
  const bool paired = a.epilogue == Epilogue::kSiluMul;
  const LinearMatrix& m = a.matrices[rows.matrix];
#pragma unroll 1
  for (i32 begin = share; begin < kCount; begin += kNumbers * splits) {
    float first[kNumbers] = {}, second[kNumbers] = {}, residuals[kNumbers] = {};
    const auto for_numbers = [&](auto body) {  // body(i, number, the tile's token, row)
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const i32 number = begin + i * splits;
        const SumPlace at = sum_place(number);
        const i32 row = rows.row + at.row;
        if (number < kCount && token + at.token < a.tokens && row < rows.end) body(i, number, at.token, row);
      }
    };
    for_numbers([&](int i, i32 number, i32 to, i32 row) {
      first[i] = sum_of(number, false);
      if (paired) second[i] = sum_of(number, true);
      residuals[i] = residual_of(a, m, row, token + to);
    });
    for_numbers([&](int i, i32, i32 to, i32 row) {
      const float scale = activations.scale(to) * undo;
      store_product(a, m, row, token + to, first[i] * scale, second[i] * scale, residuals[i]);
    });
  }
}

// The sum of body(split), of which those of several splits are loaded together.
template <class Load>
GPU_FUNCTION inline float sum_of_splits(i32 splits, Load load) {
  constexpr i32 kTogether = 8;
  float sum = 0;
  for (i32 first = 0; first < splits; first += kTogether) {
    float parts[kTogether];
#pragma unroll
    for (i32 s = 0; s < kTogether; ++s) parts[s] = first + s < splits ? load(first + s) : 0;
#pragma unroll
    for (const float part : parts) sum += part;
  }
  return sum;
}

// The wave's sums, times the scale of a split, go to `to`: a lane's number n to to[n * kWave].
template <int token_tiles, class Activations>
GPU_FUNCTION inline void store_sums(const Accumulator (&sums)[token_tiles], const Activations& activations, float* to) {
  for_sums(sums, [&](int number, float sum) {
    to[number * static_cast<int>(kWave)] = sum * activations.split_scale(sum_place(number).token);
  });
}

// Exchanges the sums of blocks that have splits of the same rows, and stores the results. `has`: whether the wave has
// rows. `memory`: the block's, which waves may still read before the first barrier here.
template <int token_tiles, class Activations>
GPU_FUNCTION inline void store_splits(const LinearBatchArgs& a, const BatchRows& rows, i32 tile, i32 token,
                                      Activations& activations, float undo, bool has, u32* memory,
                                      const Accumulator (&sums)[token_tiles]) {
  constexpr i32 kWidth = static_cast<i32>(kWave), kSums = token_tiles * Accumulator::kCount * kWidth;
  const i32 splits = static_cast<i32>(grid_size().z), split = static_cast<i32>(block_index().z);
  // With kSiluMul waves of odd number have the second matrix's, and those before them store.
  const bool stores = has && (a.epilogue != Epilogue::kSiluMul || wave_index() % 2 == 0);
#ifdef GABBRO_CLUSTERS
  if (cluster_blocks() > 1) {
    float* const own = reinterpret_cast<float*>(memory) + static_cast<i32>(wave_index()) * kSums + lane();
    barrier();
    if (has) store_sums(sums, activations, own);
    activations.begin_splits(true);
    cluster_barrier();
    activations.end_splits(true);
    if (stores) {
      store_share<token_tiles>(a, rows, token, activations, undo, split, [&](i32 number, bool second) {
        const float* const from = own + number * kWidth + (second ? kSums : 0);
        return sum_of_splits(splits, [&](i32 s) { return load_of_block(from, static_cast<u32>(s)); });
      });
    }
    return cluster_barrier();  // until then the others read this block's memory
  }
#endif
  float* const partials =
      a.partials + (static_cast<i64>(block_index().y) * a.tiles + tile) * splits * kSums + static_cast<i32>(lane());
  activations.sync_scales();
  if (has) store_sums(sums, activations, partials + split * kSums);
  activations.begin_splits(false);
  fence();
  barrier();
  if (thread_index() == 0) *memory = shares_to_add(SplitState(a.arrived), static_cast<u32>(splits));
  barrier();
  const u32 shares = *memory;
  fence();
  activations.end_splits(false);
  if (!stores) return;
  for (i32 share = 0; share < splits; ++share) {
    if ((shares >> share & 1) == 0) continue;
    store_share<token_tiles>(a, rows, token, activations, undo, share, [&](i32 number, bool second) {
      const float* const from = partials + number * kWidth + (second ? splits * kSums : 0);
      return sum_of_splits(splits, [&](i32 s) { return load_shared_result(from + s * kSums); });
    });
  }
}

// The results of a block's pairs of waves, [tile_tokens][kPairPitch] behind what the waves of a pair give each other: a
// pair's rows follow those of the pair before, so that 16 bytes of them are stored at a time.
inline constexpr i32 kPairPitch = kBatchWaves / 2 * kRows + 4;  // lanes of a wave use different banks
template <int tile_tokens>
GPU_FUNCTION inline float* pair_results() {
  return reinterpret_cast<float*>(block_memory<BatchMemory<tile_tokens>>().x) + kBatchWaves * kGivenSums<tile_tokens>;
}
template <int tile_tokens>
GPU_FUNCTION constexpr bool fits_pairs() {
  return sizeof(BatchMemory<tile_tokens>::x) >=
         sizeof(float) * (kBatchWaves * kGivenSums<tile_tokens> + tile_tokens * kPairPitch);
}
template <int tile_tokens>
GPU_FUNCTION inline void store_pairs(const LinearBatchArgs& a, i32 token) {
  constexpr i32 kLanes = kBatchWaves / 2 * kRows / 4, kTokens = kBatchThreads / kLanes;  // of a token; at a time
  const i32 thread = static_cast<i32>(thread_index()), block_rows = kBatchWaves / 2 * a.tile_rows,
            own = thread % kLanes * 4, row = static_cast<i32>(block_index().x) * block_rows + own;
  const LinearMatrix& m = a.matrices[0];
  barrier();
  if (own >= block_rows || row >= m.rows) return;
#pragma unroll
  for (i32 t = thread / kLanes; t < tile_tokens; t += kTokens) {
    if (token + t >= a.tokens) return;
    const float* const from = pair_results<tile_tokens>() + t * kPairPitch + own;
    store_vec16(m.y + static_cast<i64>(token + t) * m.rows + row, load_vec16(from));
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
  const auto store = [&](int number, float first, float second, float residual) {
    const SumPlace at = sum_place(number);
    if (token + at.token >= a.tokens || rows.row + at.row >= rows.end) return;
    const float scale = scale_of(at.token);
    store_product(a, m, rows.row + at.row, token + at.token, first * scale, second * scale, residual);
  };
  if (paired) {
    if constexpr (Activations::kFree && fits_pairs<tile_tokens>()) {
      if (m.rows % 4 == 0) {
        const i32 own = static_cast<i32>(wave_index()) / 2 * a.tile_rows;
        for_pairs<tile_tokens>(has, sums, [&](int number, float first, float second) {
          const SumPlace at = sum_place(number);
          const i32 row = rows.row + at.row;
          if (row >= rows.end) return;
          const float scale = scale_of(at.token);
          pair_results<tile_tokens>()[at.token * kPairPitch + own + at.row] =
              finished(a, m, row, first * scale, second * scale, 0);
        });
        return store_pairs<tile_tokens>(a, token);
      }
    }
    for_pairs<tile_tokens>(has, sums, [&](int number, float first, float second) { store(number, first, second, 0); });
    return;
  }
  activations.sync_scales();
  if (!has) return;
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t) {
    float residuals[Accumulator::kCount] = {};
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const SumPlace at = sum_place(t * Accumulator::kCount + i);
      if (token + at.token >= a.tokens || rows.row + at.row >= rows.end) continue;
      residuals[i] = residual_of(a, m, rows.row + at.row, token + at.token);
    }
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      store(t * Accumulator::kCount + i, sums[t].value[i], 0, residuals[i]);
    }
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
