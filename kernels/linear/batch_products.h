// Products of quantized or 16-bit weights with a tile of tokens on matrix cores, bound by memory: a wave reads its rows
// of weights once, converts them to f16 in registers, and multiplies them with all tokens of the tile. A lane converts
// whole blocks of 32 or vectors of 8, in the order in which memory has them; the activations are stored in an order
// that fits (batch_order.h).
#pragma once

#include "kernels/linear/batch_order.h"
#include "kernels/linear/convert_f16.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// Elements of a row that a lane converts and multiplies at a time, as few as can be: they take registers.
inline constexpr int kUnit = kLaneDepth < 8 ? 8 : kLaneDepth;
inline constexpr int kUnitWords = kUnit / 2, kUnitVectors = kUnit / 8;

inline constexpr i32 kRows = static_cast<i32>(kTile);  // of a wave

// Kinds of weights: a chunk is kChunk columns of the wave's rows; a lane has kUnits times kUnit elements of
// each of its rows. Rows from `end_row` on and columns past the end repeat the last ones: such rows are not stored, and
// the activations of such columns are zeros.
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

  GPU_FUNCTION BatchBlocks(const LinearMatrix& m, i32 first_row, i32 end_row, i32 columns)
      : last_(columns / kBlock - 1), matrix_(m) {
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
      const i32 row = min_of(first_row + static_cast<i32>(lane_row(i)), end_row - 1);
      first_[i] = static_cast<u32>(row) * static_cast<u32>(last_ + 1);
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
    const u32 block = static_cast<u32>(min_of(chunk * kDepthLanes + static_cast<i32>(lane_part()), last_));
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) raw.block[i] = load_raw<p, true>(matrix_, first_[i] + block);
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

  GPU_FUNCTION BatchVectors(const LinearMatrix& m, i32 first_row, i32 end_row, i32 columns) : last_(columns / 8 - 1) {
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) {
      const i32 row = min_of(first_row + static_cast<i32>(lane_row(i)), end_row - 1);
      from_[i] = m.low + row * m.row_step;
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const i32 at = min_of(vector(chunk, v / kUnitVectors, v % kUnitVectors), last_) * 16;
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) raw.vec[i][v] = load_streamed(from_[i] + at);
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

// Activations in a block's memory: two stages of kStageSteps times kBatchDepth columns; one of them is in flight.
// Long stages have few barriers.
inline constexpr i32 kStageSteps = kCopiesPassRegisters ? 2 : 1, kBatchStages = 2;
inline constexpr i32 kBatchWaves = kBatchThreads / static_cast<i32>(kWave);
inline constexpr i32 kStepVectors = kBatchDepth / 8;
template <int tile_tokens>
using BatchStep = Half[tile_tokens * kBatchDepth];
template <int tile_tokens>
using BatchStage = BatchStep<tile_tokens>[kStageSteps];
template <int tile_tokens>
struct BatchMemory {
  BatchStage<tile_tokens> x[kBatchStages];
#ifdef GABBRO_BULK_COPIES
  CopyBarrier landed[kBatchStages * kStageSteps];  // a stage, or a step
  CopyBarrier read[kBatchStages * kStageSteps];    // a step, by each of the waves
#endif
};

// Chunks of weights that are under way, of `chunks` to a step and `bytes` a lane. With many tokens a lane may have no
// registers for more.
constexpr int batch_ahead(int chunks, size_t bytes, bool many, bool together) {
  if (chunks > 1) return chunks;
  if (many && !together) return kStageSteps;
  return kStageSteps * (many || bytes >= 64 ? 1 : 2);
}

// sums += a chunk of the wave's rows times the tokens of the tile; `x` has a step of its columns; `local`: the
// number of the chunk in it; `eight`: there are no more tokens than that.
template <class Weights, bool eight, int token_tiles>
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
      u32 columns[kLaneRows][kUnitWords] = {};
#pragma unroll
      for (int i = 0; i < (eight ? 1 : kLaneRows); ++i) {  // lanes with two have tokens from 0 and from 8 on
#pragma unroll
        for (int v = 0; v < kUnitVectors; ++v) {
          const Vec16 vec = load_vec16(from[v] + (2 * t + i) * kEight);
#pragma unroll
          for (int w = 0; w < 4; ++w) columns[i][v * 4 + w] = vec.word[w];
        }
      }
#pragma unroll
      for (int first = 0; first < kUnitWords; first += kLaneDepth / 2) {
        if constexpr (eight) {
          multiply_eight(fragment_of(rows, first), columns_of(columns, first), sums[t]);
        } else {
          multiply(fragment_of(rows, first), columns_of(columns, first), sums[t]);
        }
      }
    }
  }
}

#ifdef GABBRO_TOGETHER
// The same by products of four waves together.
template <class Weights, int token_tiles>
GPU_FUNCTION inline void multiply_chunk_together(const Half* x, const typename Weights::Raw& raw, int local,
                                                 Accumulator (&sums)[token_tiles]) {
  const u32 zero = hidden_zero();
  constexpr int kTokens = token_tiles * kRows, kProducts = kUnit / kLaneDepth;
#pragma unroll
  for (int unit = 0; unit < Weights::kUnits; ++unit) {
    u32 rows[kLaneRows][kUnitWords];
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i) Weights::convert(raw, i, unit, rows[i]);
    if constexpr (!Weights::kBlocks) {
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
#pragma unroll
        for (int w = 0; w < kUnitWords; ++w) rows[i][w] |= zero;
      }
    }
    begin_together();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const Half* columns = x + ((local * Weights::kUnits + unit) * kProducts + i) * kTokens * kRows;
      WideProduct<Half, kTokens>::add(fragment_of(rows, i * kLaneDepth / 2), together_columns<kTokens>(columns),
                                      sums[0].value);
    }
    sent_together();
    done_together<1>();  // those before have read their rows
  }
}
#endif

// The end of a step's products, before its activations are overwritten.
template <bool together>
GPU_FUNCTION inline void end_step() {
#ifdef GABBRO_TOGETHER
  if constexpr (together) done_together<0>();
#endif
}
template <class Weights, bool together, bool eight, int token_tiles>
GPU_FUNCTION inline void multiply_any_chunk(const Half* x, const typename Weights::Raw& raw, int local,
                                            Accumulator (&sums)[token_tiles]) {
#ifdef GABBRO_TOGETHER
  if constexpr (together) return multiply_chunk_together<Weights>(x, raw, local, sums);
#endif
  multiply_chunk<Weights, eight>(x, raw, local, sums);
}

// Calls body(number, sum) for each sum of a wave, in order.
template <class Sums, int token_tiles, class Body>
GPU_FUNCTION inline void for_sums(Sums (&sums)[token_tiles], Body body) {
#pragma unroll
  for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) body(t * Accumulator::kCount + i, sums[t].value[i]);
  }
}

// The wave's sums over steps `begin` to `end` of K. The object that `make` returns brings steps of the activations to a
// stage; it is made after the launch ahead has ended, and returned. If they have a scale for each stage (kScales), it
// adds a stage's sums to the others.
template <class Weights, int tile_tokens, class Make>
GPU_FUNCTION inline auto multiply_steps(const Weights& weights, i32 begin, i32 end, Make make,
                                        Accumulator (&sums)[tile_tokens / static_cast<int>(kTile)]) {
  constexpr bool kTogether = takes_together(tile_tokens);
  constexpr int kChunks = kBatchDepth / Weights::kChunk;
  constexpr int kAhead = batch_ahead(kChunks, sizeof(typename Weights::Raw), tile_tokens == kMaxBatchTile, kTogether);
  // The number of steps after which the chunks are where they were, and so are the stages.
  constexpr int kSteps = kAhead / kChunks < kStageSteps ? kStageSteps : kAhead / kChunks;
  static_assert(kSteps * kChunks % kAhead == 0 && kSteps % kStageSteps == 0);
  auto& memory = block_memory<BatchMemory<tile_tokens>>();
  typename Weights::Raw coming[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) weights.load(min_of(begin * kChunks + i, end * kChunks - 1), coming[i]);
  wait_for_previous();

  auto activations = make();
  constexpr bool kScales = decltype(activations)::kScales, kEight = decltype(activations)::kEight;
  Accumulator parts[tile_tokens / static_cast<int>(kTile)];  // of a stage
  auto& products = [&]() -> auto& {
    if constexpr (kScales)
      return parts;
    else
      return sums;
  }
  ();
  const auto stage = [&](i32 step) -> auto& { return memory.x[(step - begin) / kStageSteps % kBatchStages]; };
  activations.begin(begin, end, stage(begin));
  for (i32 first = begin; first < end; first += kSteps) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const i32 step = first + s;
      if (step >= end) break;
      if (s % kStageSteps == 0) {
        if constexpr (kScales) {
          if (step > begin) activations.add(parts, sums);
        }
        activations.landed();
        end_step<kTogether>();
        barrier();
        activations.begin(step + kStageSteps, end, stage(step + kStageSteps));
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        typename Weights::Raw& raw = coming[(s * kChunks + c) % kAhead];
        multiply_any_chunk<Weights, kTogether, kEight>(stage(step)[s % kStageSteps], raw, c, products);
        const i32 chunk = step * kChunks + c + kAhead;
        if (chunk < end * kChunks) weights.load(chunk, raw);
      }
    }
  }
  end_step<kTogether>();
  if constexpr (kScales) activations.add(parts, sums);
  return activations;
}

// As above, with activations that come step by step (StepCopies): the waves do not wait for each other. They
// are made while the launch ahead may still run.
template <class Weights, int tile_tokens, class Make>
GPU_FUNCTION inline auto multiply_freely(const Weights& weights, i32 begin, i32 end, Make make,
                                         Accumulator (&sums)[tile_tokens / static_cast<int>(kTile)]) {
  constexpr bool kTogether = takes_together(tile_tokens);
  constexpr int kChunks = kBatchDepth / Weights::kChunk;
  static_assert(kChunks == batch_ahead(kChunks, 0, false, false), "a step's chunks are under way");
  typename Weights::Raw coming[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) weights.load(min_of(begin * kChunks + i, end * kChunks - 1), coming[i]);
  auto activations = make();
  wait_for_previous();
  activations.start(begin, end);
  for (i32 step = begin; step < end; ++step) {
    end_step<kTogether>();
    const Half* const x = activations.next(step, end);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      multiply_any_chunk<Weights, kTogether, false>(x, coming[c], c, sums);
      const i32 chunk = (step + 1) * kChunks + c;
      if (chunk < end * kChunks) weights.load(chunk, coming[c]);
    }
  }
  end_step<kTogether>();
  return activations;
}

// The place of a wave's sum: the token of the tile, and the row of the wave's.
struct SumPlace {
  i32 token, row;
};
GPU_FUNCTION inline SumPlace sum_place(int number) {
  constexpr u32 kCount = Accumulator::kCount;  // unsigned: a power of two divides by a shift
  const u32 tile = static_cast<u32>(number) / kCount, slot = static_cast<u32>(number) % kCount;
  return {static_cast<i32>(tile) * kRows + static_cast<i32>(column_of(static_cast<int>(slot))),
          static_cast<i32>(row_of(static_cast<int>(slot)))};
}

// For products with silu(y0)·y1: waves of even number have `tile_rows` rows of the first matrix, and those after them
// the same rows of the second. Their sums, times scale_of(the tile's token), go through the block's memory, where a
// pair's rows follow the rows of the pair before: body(the tile's token, the block's row, first, second) gets four rows
// each. The last ones may be past the block's rows.
template <int tile_tokens, int token_tiles, class ScaleOf, class Body>
GPU_FUNCTION inline void for_pairs(const Accumulator (&sums)[token_tiles], i32 tile_rows, i32 tokens, ScaleOf scale_of,
                                   Body body) {
  constexpr i32 kMostRows = kBatchWaves / 2 * kRows;
  auto& memory = block_memory<BatchMemory<tile_tokens>>().x;
  constexpr bool kRoom = sizeof memory >= sizeof(float) * 2 * tile_tokens * (kMostRows + 4);
  constexpr i32 kPitch = kMostRows + (kRoom ? 4 : 0);  // with four more, lanes use different banks
  static_assert(sizeof memory >= sizeof(float) * 2 * tile_tokens * kPitch);
  float* const pairs = reinterpret_cast<float*>(memory);
  const auto place = [](i32 matrix, i32 token, i32 row) { return (matrix * tile_tokens + token) * kPitch + row; };
  const i32 wave = static_cast<i32>(wave_index()), thread = static_cast<i32>(thread_index());
  barrier();
  for_sums(sums, [&](int number, float sum) {
    const SumPlace at = sum_place(number);
    if (at.row < tile_rows && at.token < tokens)
      pairs[place(wave % 2, at.token, wave / 2 * tile_rows + at.row)] = sum * scale_of(at.token);
  });
  barrier();
  constexpr i32 kLanes = kMostRows / 4, kTokens = kBatchThreads / kLanes;  // of a token; at a time
  const i32 row = thread % kLanes * 4;
  if (row >= kBatchWaves / 2 * tile_rows) return;
#pragma unroll 1
  for (i32 t = thread / kLanes; t < tokens; t += kTokens)
    body(t, row, load_vec16(pairs + place(0, t, row)), load_vec16(pairs + place(1, t, row)));
}

// Stores up to four results, as many as `count`: 16 bytes at a time where y is aligned to that.
GPU_FUNCTION inline void store_rows(float* y, const Vec16& results, i32 count) {
  if (count >= 4 && reinterpret_cast<u64>(y) % 16 == 0) return store_vec16(y, results);
#pragma unroll
  for (i32 i = 0; i < 4; ++i) {
    if (i < count) y[i] = bits_to_float(results.word[i]);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
#endif
