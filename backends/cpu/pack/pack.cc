#include "backends/cpu/pack/pack.h"

#include <algorithm>
#include <cstring>

#include "backends/common/dequantized.h"
#include "backends/cpu/pack/codes.h"
#include "backends/cpu/pack/file_blocks.h"
#include "src/base/half.h"
#include "src/formats/quant/e4m3.h"
#include "src/formats/quant/quant.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

int rows_of_panel(const StridedMatrix& matrix, int64_t panel) {
  return static_cast<int>(std::min<int64_t>(kPanelRows, matrix.rows - panel * kPanelRows));
}

const std::byte* first_row(const StridedMatrix& matrix, int64_t panel) {
  return matrix.data + panel * kPanelRows * matrix.row_step;
}

// 32 codes of each of 16 rows to one chunk.
template <Packing p>
void store_chunk(const DecodedBlock* blocks, int first, uint8_t* chunk) {
  if constexpr (p.e4m3) {
    for (int row = 0; row < kPanelRows; ++row) {
      for (int k = 0; k < kChunk; ++k) chunk[k * kPanelRows + row] = blocks[row].codes[first + k];
    }
    return;
  }
  alignas(64) uint8_t vectors[8 * 64];
  transpose_fours(blocks->codes + first, sizeof(DecodedBlock), vectors);
  store_codes<p.bits>(vectors, chunk);
}

// Codes `first` and on of blocks without sub-scales, as chunk `chunk` of the panel.
template <Packing p>
void store_small_block(const DecodedBlock* blocks, int first, int64_t chunk, int64_t columns, uint8_t* panel) {
  if constexpr (p.float_scale) {
    float scales[kPanelRows];
    for (int row = 0; row < kPanelRows; ++row) scales[row] = blocks[row].scale;
    std::memcpy(panel + small_scale_at(p, chunk), scales, sizeof scales);
    return store_chunk<p>(blocks, first, panel + small_codes_at(p, chunk, columns));
  }
  uint16_t scales[2][kPanelRows];
  for (int row = 0; row < kPanelRows; ++row) {
    scales[0][row] = p.bfloat_scale ? float_to_bfloat_bits(blocks[row].scale) : float_to_half_bits(blocks[row].scale);
    scales[1][row] = float_to_half_bits(blocks[row].minimum);
  }
  std::memcpy(panel + small_scale_at(p, chunk), scales, static_cast<size_t>(header_step(p)));
  store_chunk<p>(blocks, first, panel + small_codes_at(p, chunk, columns));
}

template <Packing p>
void store_super_block(const DecodedBlock* blocks, uint8_t* target) {
  for (int chunk = 0; chunk < 8; ++chunk) store_chunk<p>(blocks, chunk * kChunk, target + chunk * chunk_bytes(p));
  for (int row = 0; row < kPanelRows; ++row) {
    for (int g = 0; g < 256 / p.group; ++g) {
      target[sub_scales_at(p) + g * kPanelRows + row] = static_cast<uint8_t>(blocks[row].sub_scales[g]);
      if (p.minimum) target[sub_minimums_at(p) + g * kPanelRows + row] = blocks[row].sub_minimums[g];
    }
    std::memcpy(target + scale_at(p) + row * 4, &blocks[row].scale, 4);
    if (p.minimum) std::memcpy(target + minimum_at(p) + row * 4, &blocks[row].minimum, 4);
  }
}

struct ScaleOfRow {
  float scale, minimum;
};

template <Packing p>
void pack_blocks(const StridedMatrix& matrix, int64_t panel, uint8_t* target) {
  const DTypeInfo info = dtype_info(matrix.dtype);
  const auto decode = quant_format(matrix.dtype).decode;
  const std::byte* source = first_row(matrix, panel);
  const int rows = rows_of_panel(matrix, panel);
  DecodedBlock blocks[kPanelRows];
  std::memset(static_cast<void*>(blocks + rows), 0, sizeof(DecodedBlock) * static_cast<size_t>(kPanelRows - rows));
  for (int64_t b = 0; b < matrix.columns / info.block_elements; ++b) {
    for (int row = 0; row < rows; ++row) decode(source + row * matrix.row_step + b * info.block_bytes, blocks[row]);
    if constexpr (p.sub_scales) {
      store_super_block<p>(blocks, target + b * block_bytes(p));
    } else {
      const int chunks = info.block_elements / kChunk;
      for (int c = 0; c < chunks; ++c) store_small_block<p>(blocks, c * kChunk, b * chunks + c, matrix.columns, target);
    }
  }
  const int64_t chunks = matrix.columns / kChunk;
  if (!p.sub_scales && header_step(p) < 64 && chunks % 2 == 1)
    std::memset(target + small_scale_at(p, chunks), 0, 32);  // padding
}

// Chunk `chunk` of each row's block, to the packed chunk at `target`.
template <DType dtype>
void copy_chunk(const uint8_t* const* blocks, int rows, int chunk, uint8_t* target) {
  alignas(64) uint8_t codes[kPanelRows * kChunk], vectors[8 * 64];
  for (int row = 0; row < rows; ++row) FileBlock<dtype>::load_chunk(blocks[row], chunk, codes + row * kChunk);
  std::memset(codes + rows * kChunk, 0, static_cast<size_t>((kPanelRows - rows) * kChunk));
  transpose_fours(codes, kChunk, vectors);
  store_codes<packing_of(dtype).bits>(vectors, target);
}

// Formats of 32 elements a block: f16 scales, and minimums if any, are the first words of a block.
template <DType dtype>
void copy_small_blocks(const uint8_t* const* blocks, int rows, int64_t b, int64_t columns, uint8_t* panel) {
  constexpr Packing p = packing_of(dtype);
  uint16_t scales[2][kPanelRows] = {};
  for (int row = 0; row < rows; ++row) {
    std::memcpy(&scales[0][row], blocks[row], 2);
    if (p.minimum) std::memcpy(&scales[1][row], blocks[row] + 2, 2);
  }
  std::memcpy(panel + small_scale_at(p, b), scales, static_cast<size_t>(header_step(p)));
  copy_chunk<dtype>(blocks, rows, 0, panel + small_codes_at(p, b, columns));
}

template <DType dtype>
void copy_super_blocks(const uint8_t* const* blocks, int rows, uint8_t* target) {
  constexpr Packing p = packing_of(dtype);
  using Block = FileBlock<dtype>;
  for (int chunk = 0; chunk < 8; ++chunk) copy_chunk<dtype>(blocks, rows, chunk, target + chunk * chunk_bytes(p));
  std::memset(target + sub_scales_at(p), 0, static_cast<size_t>(block_bytes(p) - sub_scales_at(p)));
  const auto value_at = [&](int row, int at) {
    uint16_t bits;
    std::memcpy(&bits, blocks[row] + at, sizeof bits);
    return half_bits_to_float(bits);
  };
  for (int row = 0; row < rows; ++row) {
    uint8_t scales[256 / p.group], minimums[256 / p.group];
    Block::load_scales(blocks[row], scales, minimums);
    for (int g = 0; g < 256 / p.group; ++g) {
      target[sub_scales_at(p) + g * kPanelRows + row] = scales[g];
      if (p.minimum) target[sub_minimums_at(p) + g * kPanelRows + row] = minimums[g];
    }
    const float scale = value_at(row, Block::kScale);
    std::memcpy(target + scale_at(p) + row * 4, &scale, 4);
    if constexpr (p.minimum) {
      const float minimum = -value_at(row, Block::kMinimum);
      std::memcpy(target + minimum_at(p) + row * 4, &minimum, 4);
    }
  }
}

// As pack_blocks(), without decoding to a common form first: three to six times as fast (bench/cpu_pack.cc).
template <DType dtype>
void copy_blocks(const StridedMatrix& matrix, int64_t panel, uint8_t* target) {
  constexpr Packing p = packing_of(dtype);
  constexpr DTypeInfo info = dtype_info(dtype);
  const int rows = rows_of_panel(matrix, panel);
  const uint8_t* blocks[kPanelRows];
  for (int row = 0; row < rows; ++row)
    blocks[row] = reinterpret_cast<const uint8_t*>(first_row(matrix, panel)) + row * matrix.row_step;
  for (int64_t b = 0; b < matrix.columns / info.block_elements; ++b) {
    if constexpr (p.sub_scales) {
      copy_super_blocks<dtype>(blocks, rows, target + b * block_bytes(p));
    } else {
      copy_small_blocks<dtype>(blocks, rows, b, matrix.columns, target);
    }
    for (int row = 0; row < rows; ++row) blocks[row] += info.block_bytes;
  }
  const int64_t chunks = matrix.columns / kChunk;
  if (!p.sub_scales && header_step(p) < 64 && chunks % 2 == 1)
    std::memset(target + small_scale_at(p, chunks), 0, 32);  // padding
}

using PackBlocks = void (*)(const StridedMatrix&, int64_t, uint8_t*);

// Null: pack_blocks().
PackBlocks copies_blocks(DType dtype) {
  struct Row {
    DType dtype;
    PackBlocks copy;
  };
  static constexpr Row kRows[] = {
      {DType::q8_0, copy_blocks<DType::q8_0>}, {DType::q4_0, copy_blocks<DType::q4_0>},
      {DType::q4_1, copy_blocks<DType::q4_1>}, {DType::q4_k, copy_blocks<DType::q4_k>},
      {DType::q5_k, copy_blocks<DType::q5_k>}, {DType::q6_k, copy_blocks<DType::q6_k>},
  };
  const auto* const found = std::ranges::find(kRows, dtype, &Row::dtype);
  return found != std::end(kRows) ? found->copy : nullptr;
}

// Elements of the unsigned type T, which are only moved.
template <class T>
void pack_elements(const StridedMatrix& matrix, int64_t panel, uint8_t* target) {
  const std::byte* source = first_row(matrix, panel);
  const int rows = rows_of_panel(matrix, panel);
  auto* out = reinterpret_cast<T*>(target);
  if (rows < kPanelRows) std::memset(target, 0, static_cast<size_t>(matrix.columns) * kPanelRows * sizeof(T));
  constexpr int64_t kTile = 64;  // columns of a row that are read at a time: one or two cache lines
  for (int64_t first = 0; first < matrix.columns; first += kTile) {
    const int64_t last = std::min(first + kTile, matrix.columns);
    for (int row = 0; row < rows; ++row) {
      const std::byte* from = source + row * matrix.row_step;
      for (int64_t k = first; k < last; ++k) {
        std::memcpy(out + k * kPanelRows + row, from + k * matrix.column_step, sizeof(T));
      }
    }
  }
}

// For f16 and bf16, by squares where rows are whole.
void pack_words(const StridedMatrix& matrix, int64_t panel, uint8_t* target) {
  if (matrix.column_step != 2 || rows_of_panel(matrix, panel) < kPanelRows) {
    return pack_elements<uint16_t>(matrix, panel, target);
  }
  const std::byte* source = first_row(matrix, panel);
  auto* out = reinterpret_cast<uint16_t*>(target);
  int64_t k = 0;
  for (; k + kPanelRows <= matrix.columns; k += kPanelRows) {
    transpose_words(source + k * 2, matrix.row_step, out + k * kPanelRows);
  }
  for (; k < matrix.columns; ++k) {
    for (int row = 0; row < kPanelRows; ++row) {
      std::memcpy(out + k * kPanelRows + row, source + row * matrix.row_step + k * 2, 2);
    }
  }
}

// Scale, and minimum if there is one, of a row in the header of a chunk without sub-scales.
template <Packing p>
ScaleOfRow small_scale(const uint8_t* header, int row) {
  if constexpr (p.float_scale) {
    float scale;
    std::memcpy(&scale, header + row * 4, sizeof scale);
    return {scale, 0};
  }
  uint16_t bits[2] = {};
  std::memcpy(&bits[0], header + row * 2, 2);
  if (p.minimum) std::memcpy(&bits[1], header + 32 + row * 2, 2);
  const float scale = p.bfloat_scale ? bfloat_bits_to_float(bits[0]) : half_bits_to_float(bits[0]);
  return {scale, half_bits_to_float(bits[1])};
}

// For element i of the chunk, in a block with sub-scales.
template <Packing p>
ScaleOfRow sub_scale(const uint8_t* block, int64_t chunk, int i, int row) {
  const int64_t at = (chunk % 8 * kChunk + i) / p.group * kPanelRows + row;
  ScaleOfRow result = {};
  std::memcpy(&result.scale, block + scale_at(p) + row * 4, 4);
  result.scale *= static_cast<int8_t>(block[sub_scales_at(p) + at]);
  if (p.minimum) {
    std::memcpy(&result.minimum, block + minimum_at(p) + row * 4, 4);
    result.minimum *= block[sub_minimums_at(p) + at];
  }
  return result;
}

// The levels of a row in a chunk.
template <Packing p>
void unpack_levels(const uint8_t* codes, int row, float* levels) {
  if constexpr (p.e4m3) {
    for (int i = 0; i < kChunk; ++i) levels[i] = e4m3_value(codes[i * kPanelRows + row]);
  } else {
    alignas(64) int16_t words[8][2][32];
    unroll<8>([&](auto q) {
      const LevelWords both = level_words<p, q>(codes);
      store_words(words[q][0], both.even);
      store_words(words[q][1], both.odd);
    });
    for (int i = 0; i < kChunk; ++i) levels[i] = static_cast<float>(words[i / 4][i % 2][row * 2 + i % 4 / 2] - p.zero);
  }
}

template <Packing p>
void unpack_blocks(const uint8_t* panel, int row, int64_t columns, float* out) {
  float levels[kChunk];
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const uint8_t* block = panel + chunk / 8 * block_bytes(p);
    const uint8_t* codes =
        p.sub_scales ? block + chunk % 8 * chunk_bytes(p) : panel + small_codes_at(p, chunk, columns);
    unpack_levels<p>(codes, row, levels);
    for (int i = 0; i < kChunk; ++i) {
      const ScaleOfRow s =
          p.sub_scales ? sub_scale<p>(block, chunk, i, row) : small_scale<p>(panel + small_scale_at(p, chunk), row);
      out[chunk * kChunk + i] = p.zero_points ? s.scale * (levels[i] + s.minimum)
                                : p.minimum   ? s.scale * levels[i] + s.minimum
                                              : s.scale * levels[i];
    }
  }
}

}  // namespace

size_t packed_bytes(DType dtype, int64_t rows, int64_t columns) {
  if (!is_quantized(dtype) || rows <= 0 || columns <= 0 || columns % dtype_info(dtype).block_elements != 0) return 0;
  if (!has_panels(dtype)) return abi::dequantized_bytes(rows, columns);
  return static_cast<size_t>(panel_count(rows) * panel_bytes(dtype, columns));
}

void gather_rows(const StridedMatrix& matrix, int64_t panel, void* target) {
  const size_t bytes = dtype_info(matrix.dtype).block_bytes;
  const std::byte* row = first_row(matrix, panel);
  auto* out = static_cast<std::byte*>(target);
  for (int r = 0; r < rows_of_panel(matrix, panel); ++r, row += matrix.row_step) {
    for (int64_t k = 0; k < matrix.columns; ++k, out += bytes) std::memcpy(out, row + k * matrix.column_step, bytes);
  }
}

void pack_panel(const StridedMatrix& matrix, int64_t panel, void* target) {
  auto* bytes = static_cast<uint8_t*>(target);
  if (matrix.dtype == DType::f32) return pack_elements<uint32_t>(matrix, panel, bytes);
  if (!is_quantized(matrix.dtype)) return pack_words(matrix, panel, bytes);
  if (const auto copy = copies_blocks(matrix.dtype)) return copy(matrix, panel, bytes);
  dispatch_packing(matrix.dtype, []<Packing p>() -> PackBlocks { return pack_blocks<p>; })(matrix, panel, bytes);
}

void pack(DType dtype, int64_t rows, int64_t columns, const void* host, void* target, Worker& worker) {
  if (!has_panels(dtype)) {
    return worker.parallel_for(rows, kPanelRows, [&](int64_t begin, int64_t end) {
      abi::dequantize_rows(dtype, host, columns, begin, end, target);
    });
  }
  const StridedMatrix matrix = {static_cast<const std::byte*>(host),
                                dtype,
                                rows,
                                columns,
                                static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(columns))),
                                dtype_info(dtype).block_bytes};
  const int64_t step = panel_bytes(dtype, columns);
  worker.parallel_for(panel_count(rows), 4, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) pack_panel(matrix, p, static_cast<std::byte*>(target) + p * step);
  });
}

void unpack_row(DType dtype, const void* panel, int row, int64_t columns, float* out) {
  const auto* bytes = static_cast<const uint8_t*>(panel);
  using UnpackBlocks = void (*)(const uint8_t*, int, int64_t, float*);
  dispatch_packing(dtype, []<Packing p>() -> UnpackBlocks { return unpack_blocks<p>; })(bytes, row, columns, out);
}

}  // namespace gabbro::cpu::GABBRO_ISA
