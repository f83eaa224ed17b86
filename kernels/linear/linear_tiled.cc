// Weights times many tokens on matrix cores: a block multiplies kTileRows rows of weights with a tile of tokens. Both
// are in its memory as f16, kTileDepth columns at a time and double-buffered: the next columns are in flight while the
// waves multiply.
#include "kernels/linear/convert_f16.h"
#include "kernels/linear/linear_finish.h"

namespace gabbro::gpu::GABBRO_GPU {

// Elements from one row of a tile to the next: 16 bytes of padding spread eight rows over all banks.
inline constexpr u32 kPitch = kTileDepth + 8;
inline constexpr int kRowVectors = kTileDepth / 8;

// How the waves of a block share a tile: each `kRows` rows of it and `kTokens` tokens.
template <int tile_tokens>
struct WaveShare {
  static constexpr int kWaves = kTiledThreads / static_cast<int>(kWave);
  static constexpr int kAcross =
      tile_tokens == kLargeTileTokens && kWaves == 4 ? 2 : 1;  // waves side by side along tokens
  static constexpr int kRows = kTileRows * kAcross / kWaves;
  static constexpr int kTokens = tile_tokens / kAcross;
  static constexpr int kRowTiles = kRows / static_cast<int>(kTile);
  static constexpr int kTokenTiles = kTokens / static_cast<int>(kTile);
};

// The rows of weights that a block multiplies. With kSiluMul the first half of each wave's rows are the first matrix's
// and the others the same of the second, so that a lane has the sums of both.
struct TileRows {
  int matrix = 0;
  i32 first = 0;
  i32 share = kTileRows;  // rows of a wave
  bool paired = false;

  GPU_FUNCTION int matrix_of(i32 row) const { return paired ? row % share >= share / 2 ? 1 : 0 : matrix; }
  // The row's number in its matrix.
  GPU_FUNCTION i32 place_of(i32 row) const {
    return first + (paired ? row / share * (share / 2) + row % (share / 2) : row);
  }
};

GPU_FUNCTION inline TileRows tile_rows(const LinearTiledArgs& a, i32 share) {
  TileRows rows;
  rows.share = share;
  rows.paired = a.epilogue == Epilogue::kSiluMul;
  i32 tile = static_cast<i32>(block_index().y);
  if (rows.paired) {
    rows.first = tile * (kTileRows / 2);
    return rows;
  }
  while (tile >= row_tiles(a.matrices[rows.matrix].rows, a.epilogue)) {
    tile -= row_tiles(a.matrices[rows.matrix++].rows, a.epilogue);
  }
  rows.first = tile * kTileRows;
  return rows;
}

// The kinds of weights: begin() asks for the columns [k, k + kTileDepth) of the tile's rows, end() has them in `tile`.
// Rows past the matrix's end repeat its last one, and are not stored.
class HalfRows {
 public:
  GPU_FUNCTION HalfRows(const LinearTiledArgs& a, const TileRows& rows) : columns_(a.columns) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const i32 row = row_of_vector(i);
      const LinearMatrix& m = a.matrices[rows.matrix_of(row)];
      from_[i] = reinterpret_cast<const Half*>(m.low + min_of(rows.place_of(row), m.rows - 1) * m.row_step) + column();
    }
  }
  GPU_FUNCTION void begin(i32 k, Half* tile) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      copy_.begin(i, tile + row_of_vector(i) * static_cast<i32>(kPitch) + column(), from_[i] + k,
                  k + column() < columns_);
    }
    copy_.sent();
  }
  GPU_FUNCTION void end(i32, Half*) { copy_.template landed<0>(); }

 private:
  static constexpr int kVectors = kTileRows * kRowVectors / kTiledThreads;
  GPU_FUNCTION static i32 row_of_vector(int i) {
    return (static_cast<i32>(thread_index()) + i * kTiledThreads) / kRowVectors;
  }
  GPU_FUNCTION static i32 column() { return static_cast<i32>(thread_index()) % kRowVectors * 8; }

  i32 columns_;
  const Half* from_[kVectors];
  TileCopy<kVectors> copy_;
};

class BFloatRows {
 public:
  GPU_FUNCTION BFloatRows(const LinearTiledArgs& a, const TileRows& rows) : columns_(a.columns) {
    const i32 row = static_cast<i32>(thread_index());
    const LinearMatrix& m = a.matrices[rows.matrix_of(row)];
    from_ = m.low + min_of(rows.place_of(row), m.rows - 1) * m.row_step;
  }
  GPU_FUNCTION void begin(i32 k, Half*) {
#pragma unroll
    for (int q = 0; q < kRowVectors; ++q) {
      vectors_[q] = k + q * 8 < columns_ ? load_vec16(from_ + static_cast<i64>(k + q * 8) * 2) : Vec16{};
    }
  }
  GPU_FUNCTION void end(i32, Half* tile) {
#pragma unroll
    for (int q = 0; q < kRowVectors; ++q) {
      store_vec16(tile + thread_index() * kPitch + q * 8, f16_of_bf16(vectors_[q]));
    }
  }

 private:
  static_assert(kTileRows == kTiledThreads);  // a thread a row
  i32 columns_;
  const u8* from_;
  Vec16 vectors_[kRowVectors];
};

// A thread has a row and dequantizes one block of 32 at a time.
template <Packing p>
class QuantizedRows {
 public:
  GPU_FUNCTION QuantizedRows(const LinearTiledArgs& a, const TileRows& rows) {
    const i32 row = static_cast<i32>(thread_index());
    matrix_ = a.matrices[rows.matrix_of(row)];
    first_block_ = static_cast<i64>(min_of(rows.place_of(row), matrix_.rows - 1)) * (a.columns / kBlock);
  }

  GPU_FUNCTION void begin(i32 k, Half*) {
    const i64 block = first_block_ + k / kBlock;
    planes_ = load_planes<p>(matrix_, block);
    if (!p.sub_scales || k % kSuperBlock == 0) load_records(block);
  }

  GPU_FUNCTION void end(i32 k, Half* tile) {
    const RawScales<p> raw = scales_at(k % kSuperBlock / kBlock);
    float scales[kGroups], minimums[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      scales[g] = scale_of<p>(raw, g);
      if constexpr (p.minimum) minimums[g] = minimum_of<p>(raw, g);
    }
    store_block<p>(codes_of<p>(planes_), scales, minimums, tile + thread_index() * kPitch);
  }

 private:
  static_assert(kTileRows == kTiledThreads && kTileDepth == kBlock);
  static constexpr int kGroups = kBlock / p.group, kRecord = p.scale_bytes();

  // The records of a block of 256 are kRecord words of 64 bits.
  GPU_FUNCTION void load_records(i64 block) {
    raw_ = load_scales<p>(matrix_, block);
    if constexpr (p.sub_scales) {
#pragma unroll
      for (int i = 0; i < kRecord; ++i) records_[i] = reinterpret_cast<const u64*>(matrix_.scales + block * kRecord)[i];
    }
  }
  // Scales of block `index` of 256 elements.
  GPU_FUNCTION RawScales<p> scales_at(i32 index) const {
    if constexpr (!p.sub_scales) return raw_;
    // With masks: of choices between four words LLVM makes an index into scratch memory.
    u64 word = 0;
#pragma unroll
    for (int i = 0; i < kRecord; ++i) word |= records_[i] & (index * kRecord / 8 == i ? ~u64{0} : 0);
    return {static_cast<u32>(word >> (index * kRecord % 8 * 8)), raw_.super};
  }

  LinearMatrix matrix_;
  i64 first_block_;
  PlaneWords<p> planes_;
  RawScales<p> raw_;      // with the records of each block in
  u64 records_[kRecord];  // where there are sub-scales
};

template <class Rows>
inline constexpr float kUndo = 1 / kWeightScale;
template <>
inline constexpr float kUndo<HalfRows> = 1;
template <>
inline constexpr float kUndo<BFloatRows> = 1;

// The activations; tokens past the end repeat the last one, and are not stored.
template <int tile_tokens>
class TokenTile {
 public:
  GPU_FUNCTION TokenTile(const LinearTiledArgs& a, i32 token) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const i32 own = min_of(token + token_of_vector(i), a.tokens - 1);
      from_[i] = a.f16 + static_cast<i64>(own) * a.depth + column();
    }
  }
  GPU_FUNCTION void begin(i32 k, Half* tile) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      copy_.begin(i, tile + token_of_vector(i) * static_cast<i32>(kPitch) + column(), from_[i] + k, true);
    }
    copy_.sent();
  }
  GPU_FUNCTION void end() { copy_.template landed<0>(); }

 private:
  static constexpr int kVectors = tile_tokens * kRowVectors / kTiledThreads;
  GPU_FUNCTION static i32 token_of_vector(int i) {
    return (static_cast<i32>(thread_index()) + i * kTiledThreads) / kRowVectors;
  }
  GPU_FUNCTION static i32 column() { return static_cast<i32>(thread_index()) % kRowVectors * 8; }

  const Half* from_[kVectors];
  TileCopy<kVectors> copy_;
};

// This wave's products of a tile: sums += weights · tokensᵀ.
template <class Share>
GPU_FUNCTION inline void multiply_tiles(const Half* weights, const Half* tokens,
                                        Accumulator (&sums)[Share::kRowTiles][Share::kTokenTiles]) {
#pragma unroll
  for (u32 k = 0; k < kTileDepth; k += kTile) {
    Fragment rows[Share::kRowTiles];
#pragma unroll
    for (u32 r = 0; r < Share::kRowTiles; ++r) rows[r] = load_fragment(weights + r * kTile * kPitch + k, kPitch);
#pragma unroll
    for (u32 t = 0; t < Share::kTokenTiles; ++t) {
      const Columns columns = load_columns(tokens + t * kTile * kPitch + k, kPitch);
#pragma unroll
      for (u32 r = 0; r < Share::kRowTiles; ++r) multiply(rows[r], columns, sums[r][t]);
    }
  }
}

template <class Rows, int tile_tokens>
GPU_FUNCTION inline void linear_tiled(const LinearTiledArgs& a) {
  using Share = WaveShare<tile_tokens>;
  constexpr u32 kWeightElements = kTileRows * kPitch, kTokenElements = tile_tokens * kPitch;
  GPU_SHARED(Half, weights, 2 * kWeightElements);
  GPU_SHARED(Half, tokens, 2 * kTokenElements);
  const i32 token = static_cast<i32>(block_index().x) * tile_tokens;
  const TileRows tile = tile_rows(a, Share::kRows);
  Rows rows(a, tile);
  TokenTile<tile_tokens> columns(a, token);
  const i32 own_row = static_cast<i32>(wave_index()) / Share::kAcross * Share::kRows;
  const i32 own_token = static_cast<i32>(wave_index()) % Share::kAcross * Share::kTokens;
  Accumulator sums[Share::kRowTiles][Share::kTokenTiles];

  const auto begin = [&](i32 k) {
    const u32 half = static_cast<u32>(k / kTileDepth % 2);
    columns.begin(k, tokens + half * kTokenElements);
    rows.begin(k, weights + half * kWeightElements);
  };
  const auto end = [&](i32 k) {
    rows.end(k, weights + static_cast<u32>(k / kTileDepth % 2) * kWeightElements);
    columns.end();
  };
  begin(0);
  end(0);
  barrier();
  for (i32 k = 0; k < a.depth; k += kTileDepth) {
    const bool more = k + kTileDepth < a.depth;
    if (more) begin(k + kTileDepth);
    const u32 half = static_cast<u32>(k / kTileDepth % 2);
    multiply_tiles<Share>(weights + half * kWeightElements + static_cast<u32>(own_row) * kPitch,
                          tokens + half * kTokenElements + static_cast<u32>(own_token) * kPitch, sums);
    if (more) end(k + kTileDepth);
    barrier();
  }

  constexpr int kHalf = Share::kRowTiles / 2;
  const LinearMatrix& m = a.matrices[tile.matrix];
#pragma unroll
  for (int t = 0; t < Share::kTokenTiles; ++t) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 to = token + own_token + t * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
      if (to >= a.tokens) continue;
      const float scale = a.scales[to] * kUndo<Rows>;
#pragma unroll
      for (int r = 0; r < Share::kRowTiles; ++r) {
        if (tile.paired && r >= kHalf) continue;
        const i32 row = tile.place_of(own_row + r * static_cast<i32>(kTile) + static_cast<i32>(row_of(i)));
        const float second = sums[(r + kHalf) % Share::kRowTiles][t].value[i];
        if (row < m.rows) store_product(a, m, row, to, sums[r][t].value[i] * scale, second * scale);
      }
    }
  }
}

template <int tile_tokens>
GPU_FUNCTION inline void linear_tiled_f16(const LinearTiledArgs& a) {
  linear_tiled<HalfRows, tile_tokens>(a);
}
template <int tile_tokens>
GPU_FUNCTION inline void linear_tiled_bf16(const LinearTiledArgs& a) {
  linear_tiled<BFloatRows, tile_tokens>(a);
}
template <Packing p, int tile_tokens>
GPU_FUNCTION inline void linear_tiled_quantized(const LinearTiledArgs& a) {
  linear_tiled<QuantizedRows<p>, tile_tokens>(a);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(linear_f16_tiled_32, 128, gabbro::gpu::LinearTiledArgs, linear_tiled_f16<32>)
GPU_KERNEL(linear_f16_tiled_128, 128, gabbro::gpu::LinearTiledArgs, linear_tiled_f16<128>)
GPU_KERNEL(linear_bf16_tiled_32, 128, gabbro::gpu::LinearTiledArgs, linear_tiled_bf16<32>)
GPU_KERNEL(linear_bf16_tiled_128, 128, gabbro::gpu::LinearTiledArgs, linear_tiled_bf16<128>)

#define GABBRO_LINEAR(name)                                                \
  GPU_KERNEL(linear_##name##_tiled_32, 128, gabbro::gpu::LinearTiledArgs,  \
             linear_tiled_quantized<GABBRO_PACKING(name), 32>)             \
  GPU_KERNEL(linear_##name##_tiled_128, 128, gabbro::gpu::LinearTiledArgs, \
             linear_tiled_quantized<GABBRO_PACKING(name), 128>)

GABBRO_FOR_EACH_FORMAT(GABBRO_LINEAR)
