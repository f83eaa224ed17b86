// Weights times a small batch of tokens (batch_products.h): a wave a tile of rows, a block of waves a tile of tokens,
// and K in splits where rows are few.
#include "kernels/linear/batch_products.h"
#include "kernels/linear/linear_finish.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// The rows of a wave. With kSiluMul waves of even number have the first matrix's, and those after them the second's.
struct BatchRows {
  int matrix;
  i32 row;
};

GPU_FUNCTION inline BatchRows batch_rows(const LinearBatchArgs& a, i32 tile) {
  if (a.epilogue == Epilogue::kSiluMul) return {tile % 2, tile / 2 * kRows};
  int matrix = 0;
  while (tile >= batch_tiles(a.matrices[matrix].rows, a.epilogue)) {
    tile -= batch_tiles(a.matrices[matrix++].rows, a.epilogue);
  }
  return {matrix, tile * kRows};
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

// Adds the splits' sums of the same rows, in the order of the splits, and stores the results: of every lane's sums
// share z has numbers z, z + splits ... `has`: whether the wave has rows. `memory`: a word of the block's memory, which
// waves may still read before the barrier here.
template <int token_tiles>
GPU_FUNCTION inline void store_splits(const LinearBatchArgs& a, const BatchRows& rows, i32 tile, i32 token, float undo,
                                      bool has, u32* memory, const Accumulator (&sums)[token_tiles]) {
  constexpr i32 kWidth = static_cast<i32>(kWave), kCount = token_tiles * Accumulator::kCount, kSums = kCount * kWidth;
  constexpr i32 kTogether = 8;  // splits that are loaded before the first is added
  const i32 splits = static_cast<i32>(grid_size().z);
  float* partials =
      a.partials + (static_cast<i64>(block_index().y) * a.tiles + tile) * splits * kSums + static_cast<i32>(lane());
  if (has) {
    float* own = partials + static_cast<i32>(block_index().z) * kSums;
    for_sums(sums, [&](int number, float sum) { own[number * kWidth] = sum; });
  }
  fence();
  barrier();
  if (thread_index() == 0) *memory = shares_to_add(SplitState(a.arrived), static_cast<u32>(splits));
  barrier();
  const u32 shares = *memory;
  fence();
  const bool paired = a.epilogue == Epilogue::kSiluMul;
  if (!has || (paired && wave_index() % 2 == 1)) return;  // waves of odd number have the second matrix's
  const auto sum_of = [&](const float* from) {
    float sum = 0;
    for (i32 first = 0; first < splits; first += kTogether) {
      float parts[kTogether];
#pragma unroll
      for (i32 s = 0; s < kTogether; ++s) {
        parts[s] = first + s < splits ? load_shared_result(from + (first + s) * kSums) : 0;
      }
#pragma unroll
      for (const float part : parts) sum += part;
    }
    return sum;
  };
  const LinearMatrix& m = a.matrices[rows.matrix];
  for (i32 share = 0; share < splits; ++share) {
    if ((shares >> share & 1) == 0) continue;
#pragma unroll 4
    for (i32 number = share; number < kCount; number += splits) {
      const float first = sum_of(partials + number * kWidth),
                  second = paired ? sum_of(partials + (splits * kCount + number) * kWidth) : 0;
      const int slot = number % Accumulator::kCount;
      const i32 to = token + number / Accumulator::kCount * kRows + static_cast<i32>(column_of(slot)),
                row = rows.row + static_cast<i32>(row_of(slot));
      if (to >= a.tokens || row >= m.rows) continue;
      const float scale = a.scales[to] * undo;
      store_product(a, m, row, to, first * scale, second * scale);
    }
  }
}

// `second`: the second matrix's sums with kSiluMul.
template <int token_tiles>
GPU_FUNCTION inline void store_sums(const LinearBatchArgs& a, const BatchRows& rows, i32 token, float undo,
                                    const Accumulator (&sums)[token_tiles], const Accumulator (&second)[token_tiles]) {
  const LinearMatrix& m = a.matrices[rows.matrix];
#pragma unroll
  for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 to = token + t * kRows + static_cast<i32>(column_of(i));
      const i32 row = rows.row + static_cast<i32>(row_of(i));
      if (to >= a.tokens || row >= m.rows) continue;
      const float scale = a.scales[to] * undo;
      store_product(a, m, row, to, sums[t].value[i] * scale, second[t].value[i] * scale);
    }
  }
}

// Steps of the activations, which memory has one after the other.
#ifdef GABBRO_BULK_COPIES
template <int tile_tokens>
class StepCopy {
 public:
  GPU_FUNCTION StepCopy(const LinearBatchArgs& a, i32 token)
      : from_(a.f16 + static_cast<i64>(token) * kBatchDepth), step_(static_cast<i64>(a.padded) * kBatchDepth) {
    if (thread_index() == 0) {
#pragma unroll
      for (int i = 0; i < kBatchStages; ++i) begin_barrier(landed_of(i));
      show_barriers();
    }
    barrier();
  }
  // Those of a stage from `step` on, but for what is at `end` or past it.
  GPU_FUNCTION void begin(i32 step, i32 end, Half (&stage)[kStageSteps][tile_tokens * kBatchDepth]) {
    const u32 number = begun_++;
    if (thread_index() != 0 || step >= end) return;
    const i32 steps = min_of(kStageSteps, end - step);
    CopyBarrier& landed = landed_of(number);
    expect_bytes(landed, static_cast<u32>(steps) * kStepBytes);
#pragma unroll 1
    for (i32 s = 0; s < steps; ++s) begin_bulk_copy(landed, stage[s], from_ + (step + s) * step_, kStepBytes);
  }
  GPU_FUNCTION void landed() {
    const u32 number = ended_++;
    wait_for_copies(landed_of(number), number / kBatchStages);
  }

 private:
  static constexpr u32 kStepBytes = tile_tokens * kBatchDepth * sizeof(Half);
  GPU_FUNCTION static CopyBarrier& landed_of(u32 number) {
    return block_memory<BatchMemory<tile_tokens>>().landed[number % kBatchStages];
  }
  const Half* from_;
  i64 step_;  // elements
  u32 begun_ = 0, ended_ = 0;
};
#else
template <int tile_tokens>
class StepCopy {
 public:
  GPU_FUNCTION StepCopy(const LinearBatchArgs& a, i32 token)
      : from_(a.f16 + (static_cast<i64>(token) * kStepVectors + thread_index()) * 8),
        step_(static_cast<i64>(a.padded) * kBatchDepth) {}
  // Those of a stage from `step` on, but for what is at `end` or past it.
  GPU_FUNCTION void begin(i32 step, i32 end, Half (&stage)[kStageSteps][tile_tokens * kBatchDepth]) {
#pragma unroll
    for (int s = 0; s < kStageSteps; ++s) {
      Half* to = stage[s] + thread_index() * 8;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const i32 at = i * kBatchThreads * 8;
        if (step + s < end) copy_.begin(s * kCount + i, to + at, from_ + (step + s) * step_ + at, true);
      }
    }
    copy_.sent();
  }
  GPU_FUNCTION void landed() { copy_.template landed<0>(); }

 private:
  static constexpr int kCount = tile_tokens * kStepVectors / kBatchThreads;
  static_assert(kCount * kBatchThreads == tile_tokens * kStepVectors);
  const Half* from_;
  i64 step_;  // elements
  TileCopy<kCount * kStageSteps> copy_;
};
#endif

template <class Weights, int tile_tokens>
GPU_FUNCTION inline void linear_batch(const LinearBatchArgs& a) {
  constexpr int kTokenTiles = tile_tokens / static_cast<int>(kTile);
  const i32 tile = static_cast<i32>(block_index().x) * kBatchWaves + static_cast<i32>(wave_index());
  const i32 token = static_cast<i32>(block_index().y) * tile_tokens;
  const bool has = tile < a.tiles;
  const BatchRows rows = batch_rows(a, min_of(tile, a.tiles - 1));
  const i32 steps = (a.columns + kBatchDepth - 1) / kBatchDepth;
  const auto split = static_cast<i32>(block_index().z), splits = static_cast<i32>(grid_size().z);
  const Weights weights(a.matrices[rows.matrix], rows.row, a.columns);
  Accumulator sums[kTokenTiles];
  multiply_steps<Weights, tile_tokens>(
      weights, split * steps / splits, (split + 1) * steps / splits, [&] { return StepCopy<tile_tokens>(a, token); },
      sums);
  auto& memory = block_memory<BatchMemory<tile_tokens>>();
  if (splits > 1)
    return store_splits(a, rows, tile, token, Weights::kUndo, has, reinterpret_cast<u32*>(memory.x), sums);
  if (a.epilogue != Epilogue::kSiluMul) {
    if (has) store_sums(a, rows, token, Weights::kUndo, sums, sums);
    return;
  }
  Accumulator second[kTokenTiles];
  if (take_second<tile_tokens>(has, sums, second)) store_sums(a, rows, token, Weights::kUndo, sums, second);
}

template <class T, int tile_tokens>
GPU_FUNCTION inline void linear_batch_plain(const LinearBatchArgs& a) {
  linear_batch<BatchVectors<T>, tile_tokens>(a);
}
template <Packing p, int tile_tokens>
GPU_FUNCTION inline void linear_batch_blocks(const LinearBatchArgs& a) {
  linear_batch<BatchBlocks<p>, tile_tokens>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_BATCH(name, tile, ...)                                               \
  GPU_EARLY_MEMORY_KERNEL(linear_##name##_batch_##tile, gabbro::gpu::kBatchThreads, \
                          gabbro::gpu::GABBRO_GPU::BatchMemory<tile>, gabbro::gpu::LinearBatchArgs, __VA_ARGS__)
#define GABBRO_PLAIN(name, T, tile) GABBRO_BATCH(name, tile, linear_batch_plain<gabbro::gpu::T, tile>)
GABBRO_PLAIN(f16, Half, 16)
GABBRO_PLAIN(f16, Half, 32)
GABBRO_PLAIN(f16, Half, 64)
GABBRO_PLAIN(bf16, BFloat, 16)
GABBRO_PLAIN(bf16, BFloat, 32)
GABBRO_PLAIN(bf16, BFloat, 64)

#define GABBRO_BLOCKS(name, tile) GABBRO_BATCH(name, tile, linear_batch_blocks<GABBRO_PACKING(name), tile>)
#define GABBRO_FORMAT(name) \
  GABBRO_BLOCKS(name, 16)   \
  GABBRO_BLOCKS(name, 32)   \
  GABBRO_BLOCKS(name, 64)

GABBRO_FOR_EACH_FORMAT(GABBRO_FORMAT)
#endif
