// The block-quantized formats of GGUF: how to read a block of each, in one canonical form.
// A format is a file of this folder plus one line in the list in quant.cc. Depends on base alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro {

// A block of any format, decoded. With g = i / group,
//   value[i] = scale · sub_scales[g] · level(codes[i]) + minimum · sub_minimums[g]
//   level(code) = codebook ? codebook[code] : int(code) - zero
// Formats without sub-scales have sub_scales[0] = sub_minimums[0] = 1; those without a minimum have minimum = 0.
// Entries past the block's elements (codes) or groups (the others) are unspecified.
struct DecodedBlock {
  uint8_t codes[256];
  float scale;
  float minimum;  // what is added: the "m" of Q4_1 and Q5_1, minus the "dmin" of the K formats
  int8_t sub_scales[16];
  uint8_t sub_minimums[16];
};

struct QuantFormat {
  DType dtype;
  int bits;   // of a code: 2, 3, 4, 5, 6 or 8
  int group;  // elements that share a sub-scale: 16 or 32
  int zero;   // the code of level 0
  bool has_minimum;
  bool has_sub_scales;
  const int8_t* codebook;  // 16 levels, or null
  // Reads dtype_info(dtype).block_bytes bytes. Every bit pattern decodes: codes < 2^bits always; scale and minimum may
  // be infinite or NaN in a damaged file.
  void (*decode)(const std::byte* block, DecodedBlock& out);
  // Rounds block_elements floats to the nearest levels as llama.cpp's reference quantizer does; null where we have
  // none. Values that are not finite give a block that decodes, but to no useful value.
  void (*encode)(const float* values, std::byte* block);
};

// `dtype` is quantized: is_quantized(dtype).
const QuantFormat& quant_format(DType dtype);

// Row-wise conversion to f32 of every quantized format, and of f32, f16 and bf16. `elements` is a multiple of the block
// size. Throws bad_input for another dtype or a partial block.
void dequantize_row(DType dtype, const std::byte* source, float* out, int64_t elements);

// The other way, for f32, f16, bf16 and the formats that have an encoder: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
void quantize_row(DType dtype, const float* source, std::byte* out, int64_t elements);

}  // namespace gabbro
