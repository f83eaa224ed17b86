#include "src/formats/quantized_folders/scaled_bytes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/e4m3.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quantized_folders/numbers.h"

namespace gabbro::published {
namespace {

constexpr int64_t kByteBlock = 32;

struct Rows {
  ScaledBytes m;  // with copies of its tensors
  CheckpointTensor values, scales;
  DType dtype;

  float scale(int64_t row, int64_t column) const {
    const int64_t across = (values.shape[1] + m.tile_columns - 1) / m.tile_columns;
    return number(scales, row / m.tile_rows * across + column / m.tile_columns) * m.factor;
  }
};

// E4M3 codes in the finite form (OCP): NaN is refused. In the fnuz form, whose only NaN is the code of -0, the
// values are twice as small, which the scale has.
void check_codes(const Rows& rows, const std::byte* codes, int64_t row, int64_t count) {
  const bool fnuz = rows.values.format == "F8_E4M3FNUZ";
  for (int64_t i = 0; i < count; ++i) {
    const int code = std::to_integer<int>(codes[i]);
    if (fnuz ? code != 0x80 : (code & 0x7f) != 0x7f) continue;
    throw damaged_tensor(rows.values.file->path(), rows.values.name, {row * count + i, NAN}, rows.values.shape);
  }
}

void store_block(const Rows& rows, const std::byte* codes, float scale, std::byte* out) {
  if (rows.dtype == DType::q8_0) {
    const uint16_t bits = float_to_half_bits(scale);
    std::memcpy(out, &bits, sizeof bits);
    std::memcpy(out + sizeof bits, codes, kByteBlock);
    return;
  }
  std::memcpy(out, &scale, sizeof scale);
  std::memcpy(out + sizeof scale, codes, kByteBlock);
}

void fill_row(const Rows& rows, int64_t row, std::byte* out) {
  const int64_t columns = rows.values.shape[1];
  const std::byte* codes = rows.values.data.data() + row * columns;
  if (rows.m.e4m3) check_codes(rows, codes, row, columns);
  if (is_quantized(rows.dtype)) {
    const size_t bytes = dtype_info(rows.dtype).block_bytes;
    for (int64_t k = 0; k < columns; k += kByteBlock, out += bytes)
      store_block(rows, codes + k, rows.scale(row, k), out);
    return;
  }
  std::vector<float> values(static_cast<size_t>(columns));
  for (int64_t k = 0; k < columns; ++k) {
    const auto code = std::to_integer<uint8_t>(codes[k]);
    const float level = rows.m.e4m3 ? e4m3_value(code) : static_cast<float>(static_cast<int8_t>(code));
    values[static_cast<size_t>(k)] = rows.scale(row, k) * level;
  }
  quantize_row(rows.dtype, values.data(), out, columns);
}

bool all_half(const ScaledBytes& bytes) {
  for (int64_t i = 0; i < bytes.scales->elements(); ++i) {
    if (!is_exact_half(number(*bytes.scales, i) * bytes.factor)) return false;
  }
  return true;
}

}  // namespace

void find_tiles(int64_t block_rows, int64_t block_columns, ScaledBytes& bytes) {
  const int64_t rows = bytes.values->shape[0], columns = bytes.values->shape[1];
  const std::vector<int64_t>& shape = bytes.scales->shape;
  const int64_t count = bytes.scales->elements();
  bytes.tile_rows = rows;
  bytes.tile_columns = columns;
  if (count == 1 && shape.size() <= 2) return;
  if (count == rows && (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1))) {
    bytes.tile_rows = 1;
    return;
  }
  const std::vector<int64_t> blocks = {(rows + block_rows - 1) / block_rows,
                                       (columns + block_columns - 1) / block_columns};
  bytes.tile_rows = block_rows;
  bytes.tile_columns = block_columns;
  if (shape == blocks) return;
  throw bad_input("{}: tensor {} has shape ({}), which is none of scales for ({}, {}): one, one a row, or ({})",
                  bytes.scales->file->path(), quote(bytes.scales->name), fmt::join(shape, ", "), rows, columns,
                  fmt::join(blocks, ", "));
}

Matrix scaled_matrix(std::string name, std::string_view format, const ScaledBytes& bytes) {
  const int64_t rows = bytes.values->shape[0], columns = bytes.values->shape[1];
  Matrix out{.name = std::move(name),
             .format = format,
             .dtype = bytes.e4m3        ? DType::fp8_e4m3
                      : all_half(bytes) ? DType::q8_0
                                        : DType::int8_f32,
             .shape = {rows, columns},
             .parts = {bytes.values, bytes.scales}};
  if (columns % kByteBlock != 0 || bytes.tile_columns % kByteBlock != 0) {
    out.dtype = DType::bf16;
    out.dequantized_for = "its rows or tiles are not multiples of 32 columns";
  }
  const auto shared = std::make_shared<Rows>(Rows{bytes, *bytes.values, *bytes.scales, out.dtype});
  if (shared->values.format == "F8_E4M3FNUZ") shared->m.factor *= 0.5f;
  const size_t row_bytes = dtype_bytes(out.dtype, static_cast<size_t>(columns));
  out.fill = [shared, rows, row_bytes](std::span<std::byte> memory) {
    for_row_ranges(rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        fill_row(*shared, row, memory.data() + static_cast<size_t>(row) * row_bytes);
    });
  };
  return out;
}

}  // namespace gabbro::published
