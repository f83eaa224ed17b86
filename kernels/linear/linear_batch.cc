// Weights times a small batch of tokens on matrix cores, bound by memory: a wave reads its weights once, converts them
// to f16 in registers, and multiplies them with all tokens of a tile. A lane converts whole blocks of 32 or vectors of
// 8, in the order in which memory has them; the activations are stored in an order that fits (batch_vector()).
#include "kernels/linear/batch_order.h"
#include "kernels/linear/convert_f16.h"
#include "kernels/linear/linear_finish.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// Elements of a row that a lane converts and multiplies at a time, as few as can be: they take registers.
inline constexpr int kUnit = kLaneDepth < 8 ? 8 : kLaneDepth;
inline constexpr int kUnitWords = kUnit / 2, kUnitVectors = kUnit / 8;

inline constexpr i32 kRows = static_cast<i32>(kTile);  // of a wave

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

// Kinds of weights: a chunk is kChunk columns of the wave's rows, of which a lane has kUnits times kUnit elements of
// each of its rows. Rows and columns past the end repeat the last ones: the former are not stored, and the activations
// of the latter are zeros.
template <Packing p>
class BatchBlocks {
 public:
  static constexpr bool kBlocks = true;
  static constexpr int kUnits = kBlock / kUnit;
  static constexpr i32 kChunk = kDepthLanes * kBlock;
  static constexpr float kUndo = 1 / kWeightScale;
  struct Raw {
    RawBlock<p> block[kLaneRows];
  };

  GPU_FUNCTION BatchBlocks(const LinearMatrix& m, i32 first_row, i32 columns)
      : last_(columns / kBlock - 1), matrix_(m) {
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
      const i32 row = min_of(first_row + static_cast<i32>(lane_row(i)), m.rows - 1);
      first_[i] = static_cast<u32>(row) * static_cast<u32>(last_ + 1);
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
    const u32 block = static_cast<u32>(min_of(chunk * kDepthLanes + static_cast<i32>(lane_part()), last_));
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) raw.block[i] = load_raw<p>(matrix_, first_[i] + block);
  }

  GPU_FUNCTION static void convert(const Raw& raw, int i, int unit, u32* f16) {
    const RawBlock<p>& block = raw.block[i];
    const int group = unit * kUnit / p.group;
    const float minimum = p.minimum ? minimum_of<p>(block.scales, group) : 0;
    convert_codes<p>(codes_of<p>(block.planes), unit * kUnit / 4, kUnit / 4, scale_of<p>(block.scales, group), minimum,
                     f16);
  }

  // Vector v of the lane's activations of a unit.
  GPU_FUNCTION static i32 vector(i32 chunk, int unit, int v) {
    return (chunk * kDepthLanes + static_cast<i32>(lane_part())) * 4 + unit * kUnitVectors + v;
  }

 private:
  i32 last_;
  LinearMatrix matrix_;
  u32 first_[kLaneRows];  // block of the row; fewer than 2^32, or the matrix would have 128 Gi weights
};

template <class T>
class BatchVectors {
 public:
  static constexpr bool kBlocks = false;
  static constexpr int kUnits = 16 / kUnit;
  static constexpr i32 kChunk = kDepthLanes * 16;
  static constexpr float kUndo = 1;
  struct Raw {
    Vec16 vec[kLaneRows][2];
  };

  GPU_FUNCTION BatchVectors(const LinearMatrix& m, i32 first_row, i32 columns) : last_(columns / 8 - 1) {
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
      const i32 row = min_of(first_row + static_cast<i32>(lane_row(i)), m.rows - 1);
      from_[i] = m.low + row * m.row_step;
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const i32 at = min_of(vector(chunk, v / kUnitVectors, v % kUnitVectors), last_) * 16;
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) raw.vec[i][v] = load_vec16(from_[i] + at);
    }
  }

  GPU_FUNCTION static void convert(const Raw& raw, int i, int unit, u32* f16) {
#pragma unroll
    for (int v = 0; v < kUnitVectors; ++v) {
      const Vec16& stored = raw.vec[i][unit * kUnitVectors + v];
      const Vec16 vec = kIsBFloat<T> ? f16_of_bf16(stored) : stored;
#pragma unroll
      for (int w = 0; w < 4; ++w) f16[v * 4 + w] = vec.word[w];
    }
  }

  GPU_FUNCTION static i32 vector(i32 chunk, int unit, int v) {
    return (chunk * 2 + unit * kUnitVectors + v) * kDepthLanes + static_cast<i32>(lane_part());
  }

 private:
  i32 last_;
  const u8* from_[kLaneRows];
};

// Activations in a block's memory: two stages of kStageSteps times kBatchDepth columns, of which one is on its way.
// Long stages have few barriers.
inline constexpr i32 kStageSteps = kCopiesPassRegisters ? 2 : 1, kBatchStages = 2;
inline constexpr i32 kBatchWaves = kBatchThreads / static_cast<i32>(kWave);
inline constexpr i32 kStepVectors = kBatchDepth / 8;
template <int tile_tokens>
struct BatchMemory {
  Half x[kBatchStages][kStageSteps][tile_tokens * kBatchDepth];
};

// Chunks of weights that are under way, of `chunks` to a step and `bytes` a lane. With many tokens a lane may have no
// registers for more.
constexpr int batch_ahead(int chunks, size_t bytes, bool many, bool together) {
  if (chunks > 1) return chunks;
  if (many && !together) return kStageSteps;
  return kStageSteps * (many || bytes >= 64 ? 1 : 2);
}

// sums += a chunk of the wave's rows times the tokens of the tile, of which `x` has a step of columns; `local`: the
// number of the chunk in it.
template <class Weights, int token_tiles>
GPU_FUNCTION inline void multiply_chunk(const Half* x, const typename Weights::Raw& raw, int local,
                                        Accumulator (&sums)[token_tiles]) {
  constexpr i32 kTokens = token_tiles * kRows;
  constexpr int kEight = 128 * 8;  // elements from eight tokens to the next
#pragma unroll
  for (int unit = 0; unit < Weights::kUnits; ++unit) {
    u32 rows[kLaneRows][kUnitWords];
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) Weights::convert(raw, i, unit, rows[i]);
    const Half* from[kUnitVectors];
#pragma unroll
    for (int v = 0; v < kUnitVectors; ++v) {
      const i32 first = static_cast<i32>(lane_row(0));
      from[v] = x + batch_vector(first, Weights::vector(local, unit, v), kTokens, Weights::kBlocks) * 8;
    }
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
      u32 columns[kLaneRows][kUnitWords];
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
#pragma unroll
        for (int v = 0; v < kUnitVectors; ++v) {
          const Vec16 vec = load_vec16(from[v] + (2 * t + i) * kEight);
#pragma unroll
          for (int w = 0; w < 4; ++w) columns[i][v * 4 + w] = vec.word[w];
        }
      }
#pragma unroll
      for (int first = 0; first < kUnitWords; first += kLaneDepth / 2) {
        multiply(fragment_of(rows, first), columns_of(columns, first), sums[t]);
      }
    }
  }
}

#ifdef GABBRO_TOGETHER
// The same by products of four waves together.
template <class Weights, int token_tiles>
GPU_FUNCTION inline void multiply_chunk_together(const Half* x, const typename Weights::Raw& raw,
                                                 Accumulator (&sums)[token_tiles]) {
  constexpr int kTokens = token_tiles * kRows, kProducts = kUnit / kLaneDepth;
#pragma unroll
  for (int unit = 0; unit < Weights::kUnits; ++unit) {
    u32 rows[kLaneRows][kUnitWords];
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) Weights::convert(raw, i, unit, rows[i]);
    begin_together();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const Half* columns = x + (unit * kProducts + i) * kTokens * kRows;
      multiply_together<kTokens>(fragment_of(rows, i * kLaneDepth / 2), together_columns<kTokens>(columns),
                                 sums[0].value);
    }
    sent_together();
    done_together<1>();  // those before have read their rows
  }
}
#endif

// The end of a step's products, before its activations are overwritten and after the next ones have landed.
template <bool together>
GPU_FUNCTION inline void end_step() {
#ifdef GABBRO_TOGETHER
  if constexpr (together) {
    done_together<0>();
    show_together();
  }
#endif
}
template <class Weights, bool together, int token_tiles>
GPU_FUNCTION inline void multiply_any_chunk(const Half* x, const typename Weights::Raw& raw, int local,
                                            Accumulator (&sums)[token_tiles]) {
#ifdef GABBRO_TOGETHER
  if constexpr (together) return multiply_chunk_together<Weights>(x, raw, sums);
#endif
  multiply_chunk<Weights>(x, raw, local, sums);
}

// All sums of a wave, one after the other: body(number, sum).
template <int token_tiles, class Body>
GPU_FUNCTION inline void for_sums(Accumulator (&sums)[token_tiles], Body body) {
#pragma unroll
  for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) body(t * Accumulator::kCount + i, sums[t].value[i]);
  }
}

// The blocks' sums of the same rows, in their order, in the last block that comes here; false in the others. `has`:
// whether the wave has any. `arrived`: a word of the block's memory, which waves may still read before the barrier
// here.
template <int token_tiles>
GPU_FUNCTION inline bool add_splits(const LinearBatchArgs& a, i32 tile, bool has, u32* arrived,
                                    Accumulator (&sums)[token_tiles]) {
  constexpr i32 kSums = token_tiles * Accumulator::kCount * static_cast<i32>(kWave);
  const i32 splits = static_cast<i32>(grid_size().z);
  float* partials =
      a.partials + (static_cast<i64>(block_index().y) * a.tiles + tile) * splits * kSums + static_cast<i32>(lane());
  if (has) {
    float* own = partials + static_cast<i32>(block_index().z) * kSums;
    for_sums(sums, [&](int number, float& sum) { own[number * static_cast<int>(kWave)] = sum; });
  }
  fence();
  barrier();
  u32* counter = a.arrived + block_index().y * grid_size().x + block_index().x;
  if (thread_index() == 0) *arrived = atomic_increment(counter);
  barrier();
  if (*arrived + 1 < static_cast<u32>(splits)) return false;
  fence();
  if (thread_index() == 0) *counter = 0;  // for the next launch
  if (!has) return true;
  // Those of several blocks are loaded before the first is added.
  constexpr int kCount = token_tiles * Accumulator::kCount, kTogether = kCount <= 8 ? 8 : 64 / kCount;
  for_sums(sums, [&](int, float& sum) { sum = 0; });
  for (i32 first = 0; first < splits; first += kTogether) {
    float parts[kTogether][kCount];
#pragma unroll
    for (int s = 0; s < kTogether; ++s) {
      const float* from = partials + min_of(first + s, splits - 1) * kSums;
#pragma unroll
      for (int i = 0; i < kCount; ++i) parts[s][i] = load_shared_result(from + i * static_cast<int>(kWave));
    }
#pragma unroll
    for (int s = 0; s < kTogether; ++s) {
      if (first + s < splits) for_sums(sums, [&](int number, float& sum) { sum += parts[s][number]; });
    }
  }
  return true;
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

// Steps of the activations, copied by the whole block.
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

// The wave's sums over the block's steps of K.
template <class Weights, int tile_tokens>
GPU_FUNCTION inline void multiply_steps(const LinearBatchArgs& a, const BatchRows& rows, i32 token,
                                        Accumulator (&sums)[tile_tokens / static_cast<int>(kTile)]) {
  constexpr bool kTogether = takes_together(tile_tokens, Weights::kBlocks);
  constexpr int kChunks = kBatchDepth / Weights::kChunk;
  constexpr int kAhead = batch_ahead(kChunks, sizeof(typename Weights::Raw), tile_tokens == kMaxBatchTile, kTogether);
  // The number of steps after which the chunks are where they were, and so are the stages.
  constexpr int kSteps = kAhead / kChunks < kStageSteps ? kStageSteps : kAhead / kChunks;
  static_assert(kSteps * kChunks % kAhead == 0 && kSteps % kStageSteps == 0 && (!kTogether || kChunks == 1));
  auto& memory = block_memory<BatchMemory<tile_tokens>>();
  const Weights weights(a.matrices[rows.matrix], rows.row, a.columns);
  const i32 steps = (a.columns + kBatchDepth - 1) / kBatchDepth;
  const auto split = static_cast<i32>(block_index().z), splits = static_cast<i32>(grid_size().z);
  const i32 begin = split * steps / splits, end = (split + 1) * steps / splits;
  typename Weights::Raw coming[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) weights.load(min_of(begin * kChunks + i, end * kChunks - 1), coming[i]);
  wait_for_previous();

  StepCopy<tile_tokens> copy(a, token);
  const auto stage = [&](i32 step) -> auto& { return memory.x[(step - begin) / kStageSteps % kBatchStages]; };
  copy.begin(begin, end, stage(begin));
  for (i32 first = begin; first < end; first += kSteps) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const i32 step = first + s;
      if (step >= end) break;
      if (s % kStageSteps == 0) {
        copy.landed();
        end_step<kTogether>();
        barrier();
        copy.begin(step + kStageSteps, end, stage(step + kStageSteps));
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        typename Weights::Raw& raw = coming[(s * kChunks + c) % kAhead];
        multiply_any_chunk<Weights, kTogether>(stage(step)[s % kStageSteps], raw, c, sums);
        const i32 chunk = step * kChunks + c + kAhead;
        if (chunk < end * kChunks) weights.load(chunk, raw);
      }
    }
  }
  end_step<kTogether>();
}

template <class Weights, int tile_tokens>
GPU_FUNCTION inline void linear_batch(const LinearBatchArgs& a) {
  constexpr int kTokenTiles = tile_tokens / static_cast<int>(kTile);
  constexpr i32 kSums = kTokenTiles * Accumulator::kCount * static_cast<i32>(kWave);
  const auto wave = static_cast<i32>(wave_index());
  const i32 tile = static_cast<i32>(block_index().x) * kBatchWaves + wave;
  const i32 token = static_cast<i32>(block_index().y) * tile_tokens;
  const bool has = tile < a.tiles;
  const BatchRows rows = batch_rows(a, min_of(tile, a.tiles - 1));
  Accumulator sums[kTokenTiles];
  multiply_steps<Weights, tile_tokens>(a, rows, token, sums);
  auto& memory = block_memory<BatchMemory<tile_tokens>>();
  if (grid_size().z > 1 && !add_splits(a, tile, has, reinterpret_cast<u32*>(memory.x), sums)) return;
  if (a.epilogue != Epilogue::kSiluMul) {
    if (has) store_sums(a, rows, token, Weights::kUndo, sums, sums);
    return;
  }

  // The waves of the second matrix give their sums to those of the first.
  static_assert(sizeof(memory.x) >= kBatchWaves / 2 * kSums * sizeof(float));
  float* pair = reinterpret_cast<float*>(memory.x) + wave / 2 * kSums + static_cast<i32>(lane());
  barrier();
  if (has && tile % 2 == 1) {
    for_sums(sums, [&](int number, float& sum) { pair[number * static_cast<int>(kWave)] = sum; });
  }
  barrier();
  if (!has || tile % 2 == 1) return;
  Accumulator second[kTokenTiles];
  for_sums(second, [&](int number, float& sum) { sum = pair[number * static_cast<int>(kWave)]; });
  store_sums(a, rows, token, Weights::kUndo, sums, second);
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
