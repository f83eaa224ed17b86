// Weights times a small batch of tokens on matrix cores, bound by memory: a wave reads its weights once, converts them
// to f16 in registers, and multiplies them with all tokens of a tile. A lane converts whole blocks of 32 or vectors of
// 8, in the order in which memory has them; the activations are stored in an order that fits (batch_vector()).
#include "kernels/linear/convert_f16.h"
#include "kernels/linear/linear_finish.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kRowTiles = kBatchRows / static_cast<int>(kTile);
// Elements of a row that a lane converts and multiplies at a time, as few as can be: they take registers.
inline constexpr int kUnit = kLaneDepth < 8 ? 8 : kLaneDepth;
inline constexpr int kUnitWords = kUnit / 2, kUnitVectors = kUnit / 8;

// The rows of a wave: kRowTiles tiles of 16, and of which matrix each is.
struct BatchRows {
  LinearMatrix matrix[kRowTiles];
  i32 row[kRowTiles];
};

GPU_FUNCTION inline BatchRows batch_rows(const LinearBatchArgs& a, i32 tile) {
  constexpr i32 kRows = static_cast<i32>(kTile);
  BatchRows rows;
  if (a.epilogue == Epilogue::kSiluMul) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      rows.matrix[r] = a.matrices[r];
      rows.row[r] = tile * kRows;
    }
    return rows;
  }
  int matrix = 0;
  while (tile >= batch_tiles(a.matrices[matrix].rows, a.epilogue)) {
    tile -= batch_tiles(a.matrices[matrix++].rows, a.epilogue);
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    rows.matrix[r] = a.matrices[matrix];
    rows.row[r] = tile * kBatchRows + r * kRows;
  }
  return rows;
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
    RawBlock<p> block[kRowTiles][kLaneRows];
  };

  GPU_FUNCTION BatchBlocks(const BatchRows& rows, i32 columns) : last_(columns / kBlock - 1) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      matrix_[r] = rows.matrix[r];
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
        const i32 row = min_of(rows.row[r] + static_cast<i32>(lane_row(i)), matrix_[r].rows - 1);
        first_[r][i] = static_cast<u32>(row) * static_cast<u32>(last_ + 1);
      }
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
    const u32 block = static_cast<u32>(min_of(chunk * kDepthLanes + static_cast<i32>(lane_part()), last_));
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) raw.block[r][i] = load_raw<p>(matrix_[r], first_[r][i] + block);
    }
  }

  GPU_FUNCTION static void convert(const Raw& raw, int r, int i, int unit, u32* f16) {
    const RawBlock<p>& block = raw.block[r][i];
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
  LinearMatrix matrix_[kRowTiles];
  u32 first_[kRowTiles][kLaneRows];  // block of the row; fewer than 2^32, or the matrix would have 128 Gi weights
};

template <class T>
class BatchVectors {
 public:
  static constexpr bool kBlocks = false;
  static constexpr int kUnits = 16 / kUnit;
  static constexpr i32 kChunk = kDepthLanes * 16;
  static constexpr float kUndo = 1;
  struct Raw {
    Vec16 vec[kRowTiles][kLaneRows][2];
  };

  GPU_FUNCTION BatchVectors(const BatchRows& rows, i32 columns) : last_(columns / 8 - 1) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
        const i32 row = min_of(rows.row[r] + static_cast<i32>(lane_row(i)), rows.matrix[r].rows - 1);
        from_[r][i] = rows.matrix[r].low + row * rows.matrix[r].row_step;
      }
    }
  }

  GPU_FUNCTION void load(i32 chunk, Raw& raw) const {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const i32 at = min_of(vector(chunk, v / kUnitVectors, v % kUnitVectors), last_) * 16;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < kLaneRows; ++i) raw.vec[r][i][v] = load_vec16(from_[r][i] + at);
      }
    }
  }

  GPU_FUNCTION static void convert(const Raw& raw, int r, int i, int unit, u32* f16) {
#pragma unroll
    for (int v = 0; v < kUnitVectors; ++v) {
      const Vec16& stored = raw.vec[r][i][unit * kUnitVectors + v];
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
  const u8* from_[kRowTiles][kLaneRows];
};

// sums += a chunk of the wave's rows times the tokens of the tile, which begins at `token`.
template <class Weights, int token_tiles>
GPU_FUNCTION inline void multiply_chunk(const LinearBatchArgs& a, const typename Weights::Raw& raw, i32 chunk,
                                        i32 token, Accumulator (&sums)[kRowTiles][token_tiles]) {
  constexpr int kTokens = 128 * 8;  // elements from eight tokens to the next
#pragma unroll
  for (int unit = 0; unit < Weights::kUnits; ++unit) {
    u32 rows[kRowTiles][kLaneRows][kUnitWords];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) Weights::convert(raw, r, i, unit, rows[r][i]);
    }
    const Half* x[kUnitVectors];
#pragma unroll
    for (int v = 0; v < kUnitVectors; ++v) {
      const i32 first = token + static_cast<i32>(lane_row(0));
      x[v] = a.f16 + batch_vector(first, Weights::vector(chunk, unit, v), a.padded, Weights::kBlocks) * 8;
    }
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
      u32 columns[kLaneRows][kUnitWords];
#pragma unroll
      for (int i = 0; i < kLaneRows; ++i) {
#pragma unroll
        for (int v = 0; v < kUnitVectors; ++v) {
          const Vec16 vec = load_vec16(x[v] + (2 * t + i) * kTokens);
#pragma unroll
          for (int w = 0; w < 4; ++w) columns[i][v * 4 + w] = vec.word[w];
        }
      }
#pragma unroll
      for (int first = 0; first < kUnitWords; first += kLaneDepth / 2) {
        const Columns own = columns_of(columns, first);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) multiply(fragment_of(rows[r], first), own, sums[r][t]);
      }
    }
  }
}

// All sums of a wave, one after the other: body(number, sum).
template <int token_tiles, class Body>
GPU_FUNCTION inline void for_sums(Accumulator (&sums)[kRowTiles][token_tiles], Body body) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        body((r * token_tiles + t) * Accumulator::kCount + i, sums[r][t].value[i]);
      }
    }
  }
}

// Position of a wave in its block.
struct BatchWave {
  i32 row, rows;      // among waves with different rows
  i32 depth, depths;  // among waves that share their rows

  GPU_FUNCTION BatchWave(i32 waves, i32 row_waves)
      : row(static_cast<i32>(wave_index()) % row_waves),
        rows(row_waves),
        depth(static_cast<i32>(wave_index()) / row_waves),
        depths(waves / row_waves) {}
};

// The waves' sums of the same rows, in the first of them; in an order that depends on their number alone.
template <int token_tiles>
GPU_FUNCTION inline void add_waves(const BatchWave& wave, float* memory, Accumulator (&sums)[kRowTiles][token_tiles]) {
  constexpr i32 kSums = kRowTiles * token_tiles * Accumulator::kCount * static_cast<i32>(kWave);
  for (i32 half = wave.depths / 2; half > 0; half /= 2) {
    float* own = memory + (wave.depth % half * wave.rows + wave.row) * kSums + static_cast<i32>(lane());
    if (wave.depth >= half && wave.depth < 2 * half) {
      for_sums(sums, [&](int number, float& sum) { own[number * static_cast<int>(kWave)] = sum; });
    }
    barrier();
    if (wave.depth < half) {
      for_sums(sums, [&](int number, float& sum) { sum += own[number * static_cast<int>(kWave)]; });
    }
    barrier();
  }
}

// The blocks' sums of the same rows, in their order, in the last block that comes here; false in the others. `has`:
// whether the wave has any.
template <int token_tiles>
GPU_FUNCTION inline bool add_splits(const LinearBatchArgs& a, i32 tile, bool has,
                                    Accumulator (&sums)[kRowTiles][token_tiles]) {
  constexpr i32 kSums = kRowTiles * token_tiles * Accumulator::kCount * static_cast<i32>(kWave);
  GPU_SHARED(u32, arrived, 1);
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
  if (thread_index() == 0) arrived[0] = atomic_increment(counter);
  barrier();
  if (arrived[0] + 1 < static_cast<u32>(splits)) return false;
  fence();
  if (thread_index() == 0) *counter = 0;  // for the next launch
  if (!has) return true;
  for_sums(sums, [&](int, float& sum) { sum = 0; });
  for (i32 s = 0; s < splits; ++s) {
    for_sums(sums, [&](int number, float& sum) {
      sum += load_shared_result(partials + s * kSums + number * static_cast<int>(kWave));
    });
  }
  return true;
}

template <int token_tiles>
GPU_FUNCTION inline void store_sums(const LinearBatchArgs& a, const BatchRows& rows, i32 token, float undo,
                                    const Accumulator (&sums)[kRowTiles][token_tiles]) {
  const bool paired = a.epilogue == Epilogue::kSiluMul;
#pragma unroll
  for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 to = token + t * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
      if (to >= a.tokens) continue;
      const float scale = a.scales[to] * undo;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        if (paired && r > 0) continue;
        const i32 row = rows.row[r] + static_cast<i32>(row_of(i));
        if (row >= rows.matrix[r].rows) continue;
        store_product(a, rows.matrix[r], row, to, sums[r][t].value[i] * scale, sums[kRowTiles - 1][t].value[i] * scale);
      }
    }
  }
}

template <class Weights, int tile_tokens>
GPU_FUNCTION inline void linear_batch(const LinearBatchArgs& a) {
  constexpr int kTokenTiles = tile_tokens / static_cast<int>(kTile);
  // Chunks of weights that are under way: with more tokens a lane has no registers for two.
  constexpr int kAhead = tile_tokens == 16 ? 2 : 1;
  constexpr i32 kWaves = batch_threads(tile_tokens) / static_cast<i32>(kWave);
  GPU_SHARED(float, memory, kWaves / 2 * kBatchRows * tile_tokens);
  const BatchWave wave(kWaves, a.row_waves);
  const i32 tile = static_cast<i32>(block_index().x) * a.row_waves + wave.row;
  const i32 token = static_cast<i32>(block_index().y) * tile_tokens;
  const bool has = tile < a.tiles;
  const BatchRows rows = batch_rows(a, min_of(tile, a.tiles - 1));
  const Weights weights(rows, a.columns);

  const i32 chunks = (a.columns + Weights::kChunk - 1) / Weights::kChunk;
  const i32 worker = static_cast<i32>(block_index().z) * wave.depths + wave.depth;
  const i32 workers = static_cast<i32>(grid_size().z) * wave.depths;
  const i32 begin = worker * chunks / workers, end = has ? (worker + 1) * chunks / workers : begin;
  typename Weights::Raw coming[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) weights.load(min_of(begin + i, chunks - 1), coming[i]);
  wait_for_previous();
  Accumulator sums[kRowTiles][kTokenTiles];
  for (i32 chunk = begin; chunk < end; chunk += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (chunk + i >= end) break;
      multiply_chunk<Weights>(a, coming[i], chunk + i, token, sums);
      if (chunk + i + kAhead < end) weights.load(chunk + i + kAhead, coming[i]);
    }
  }

  add_waves(wave, memory, sums);
  const bool first = has && wave.depth == 0;
  if (grid_size().z > 1 && !add_splits(a, tile, first, sums)) return;
  if (first) store_sums(a, rows, token, Weights::kUndo, sums);
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

#define GABBRO_PLAIN(name, T, tile)                                                                              \
  GPU_EARLY_KERNEL(linear_##name##_batch_##tile, gabbro::gpu::batch_threads(tile), gabbro::gpu::LinearBatchArgs, \
                   linear_batch_plain<gabbro::gpu::T, tile>)
GABBRO_PLAIN(f16, Half, 16)
GABBRO_PLAIN(f16, Half, 32)
GABBRO_PLAIN(f16, Half, 64)
GABBRO_PLAIN(bf16, BFloat, 16)
GABBRO_PLAIN(bf16, BFloat, 32)
GABBRO_PLAIN(bf16, BFloat, 64)

#define GABBRO_BLOCKS(name, tile)                                                                                \
  GPU_EARLY_KERNEL(linear_##name##_batch_##tile, gabbro::gpu::batch_threads(tile), gabbro::gpu::LinearBatchArgs, \
                   linear_batch_blocks<GABBRO_PACKING(name), tile>)
#define GABBRO_FORMAT(name) \
  GABBRO_BLOCKS(name, 16)   \
  GABBRO_BLOCKS(name, 32)   \
  GABBRO_BLOCKS(name, 64)

GABBRO_FOR_EACH_FORMAT(GABBRO_FORMAT)
#endif
