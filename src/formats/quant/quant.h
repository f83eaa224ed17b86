// The block-quantized formats of GGUF: how to decode a block of each, in one canonical form. A format is a row of
// traits.h and a file of this folder. Depends on base alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro {

// A block of any format with codes, decoded. With t = quant_traits(dtype) and g = i / t.group,
//   value[i] = scale · sub_scales[g] · level(codes[i]) + minimum · sub_minimums[g]
//   level(code) = t.levels.used ? quant_level(t.levels, code) : int(code) - t.zero
// With t.zero_points the minimum counts in units of the scale: value[i] = scale · (codes[i] + minimum). With t.e4m3
// the level is that of the float (e4m3_value()).
// Formats without sub-scales have sub_scales[g] = sub_minimums[g] = 1; those without a minimum have minimum = 0.
// Entries past the block's elements (codes) or groups (the others) are unspecified.
struct DecodedBlock {
  uint8_t codes[256];
  float scale;
  float minimum;  // the summand: the "m" of Q4_1 and Q5_1, minus the "dmin" of the K formats
  int8_t sub_scales[16];
  uint8_t sub_minimums[16];
};

// The level of a code of a codebook.
constexpr int quant_level(const QuantLevels& levels, int code) {
  return levels.wide ? 256 * levels.value[code] + levels.low[code] : levels.value[code];
}

// The functions of a format; each reads or writes dtype_info(dtype).block_bytes bytes. Every bit pattern is a block;
// scales and minimums may be infinite or NaN in a damaged file.
struct QuantFormat {
  // Formats with codes, else null: codes < 2^bits always.
  void (*decode)(const std::byte* block, DecodedBlock& out) = nullptr;
  // The block's values, where there are no codes or where the canonical form is an approximation of them; else null.
  void (*dequantize)(const std::byte* block, float* out) = nullptr;
  // Quantizes block_elements floats; null: no encoder. `importance` has a weight of each element's squared error, or is
  // null: equal weights. Negative and NaN weights count as 0; all of them 0 as none. Values that are not finite give a
  // block that decodes, but to no useful value.
  void (*encode)(const float* values, const float* importance, std::byte* block) = nullptr;
};

// `dtype` is quantized: is_quantized(dtype).
const QuantFormat& quant_format(DType dtype);

// Row-wise conversion to f32 of every quantized format, and of f32, f16 and bf16. `elements` is a multiple of the block
// size. Throws bad_input for another dtype or a partial block.
void dequantize_row(DType dtype, const std::byte* source, float* out, int64_t elements);

// With the values of the canonical form, with which kernels multiply. It differs only for NF4, whose levels
// are rounded there.
void dequantize_codes(DType dtype, const std::byte* source, float* out, int64_t elements);

// The other way, for f32, f16, bf16 and the formats that have an encoder. `importance` has a weight of each element,
// for example the mean of its squared activations, or is null. Throws as above, and for a format without an encoder.
void quantize_row(DType dtype, const float* source, const float* importance, std::byte* out, int64_t elements);

inline void quantize_row(DType dtype, const float* source, std::byte* out, int64_t elements) {
  quantize_row(dtype, source, nullptr, out, elements);
}

}  // namespace gabbro
