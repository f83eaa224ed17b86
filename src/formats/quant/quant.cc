#include "src/formats/quant/quant.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/e4m3.h"

namespace gabbro {
namespace {

constexpr const QuantFormat* kFormats[] = {
#define GABBRO_APPLY(name, ...) &quant::decoders::name,
    GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
};

int64_t count_blocks(DType dtype, int64_t elements) {
  const int block = dtype_info(dtype).block_elements;
  if (elements < 0 || elements % block != 0) {
    throw bad_input("a row of {} {} elements is not a number of blocks of {}", elements, dtype_name(dtype), block);
  }
  return elements / block;
}

float level_of(const QuantTraits& traits, int code) {
  if (traits.e4m3) return e4m3_value(static_cast<uint8_t>(code));
  return static_cast<float>(traits.levels.used ? quant_level(traits.levels, code) : code - traits.zero);
}

void dequantize_block(const QuantTraits& traits, const DecodedBlock& block, float* out) {
  for (int first = 0; first < traits.block_elements; first += traits.group) {
    const int g = first / traits.group;
    const float scale = block.scale * block.sub_scales[g];
    const float minimum = block.minimum * block.sub_minimums[g];
    for (int i = first; i < first + traits.group; ++i) {
      const float level = level_of(traits, block.codes[i]);
      out[i] = traits.zero_points     ? scale * (level + minimum)
               : traits.has_minimum() ? scale * level + minimum
                                      : scale * level;
    }
  }
}

// Element by element through memcpy: the file need not be aligned for the type.
template <class T>
void widen(const std::byte* source, float* out, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

// half_bits_to_float() without branches, so that compilers vectorize it.
void widen_half(const std::byte* source, float* out, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    uint16_t half;
    std::memcpy(&half, source + i * 2, sizeof half);
    const int32_t magnitude = half & 0x7fff;
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    const uint32_t offset = magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u;  // infinity and NaN; else normal
    const uint32_t normal = (static_cast<uint32_t>(magnitude) << 13) + offset;
    const uint32_t bits = (half & 0x8000u) << 16 | (magnitude < 0x0400 ? subnormal : normal);
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

template <class T>
void narrow(const float* source, std::byte* out, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    const T value(source[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

const QuantFormat& quant_format(DType dtype) {
  assert(is_quantized(dtype));
  return *kFormats[static_cast<int>(dtype) - kFirstQuantized];
}

namespace {

void dequantize(DType dtype, bool by_codes, const std::byte* source, float* out, int64_t elements) {
  const int64_t blocks = count_blocks(dtype, elements);
  if (dtype == DType::f32) return widen<float>(source, out, elements);
  if (dtype == DType::f16) return widen_half(source, out, elements);
  if (dtype == DType::bf16) return widen<BFloat>(source, out, elements);
  if (!is_quantized(dtype)) throw bad_input("cannot dequantize {}", dtype_name(dtype));
  const QuantFormat& format = quant_format(dtype);
  const QuantTraits& traits = quant_traits(dtype);
  const bool decodes = format.decode != nullptr && (by_codes || format.dequantize == nullptr);
  DecodedBlock block;
  for (int64_t b = 0; b < blocks; ++b, source += traits.block_bytes, out += traits.block_elements) {
    if (!decodes) {
      format.dequantize(source, out);
    } else {
      format.decode(source, block);
      dequantize_block(traits, block, out);
    }
  }
}

}  // namespace

void dequantize_row(DType dtype, const std::byte* source, float* out, int64_t elements) {
  dequantize(dtype, false, source, out, elements);
}

void dequantize_codes(DType dtype, const std::byte* source, float* out, int64_t elements) {
  dequantize(dtype, true, source, out, elements);
}

void quantize_row(DType dtype, const float* source, const float* importance, std::byte* out, int64_t elements) {
  const int64_t blocks = count_blocks(dtype, elements);
  if (dtype == DType::f32) return narrow<float>(source, out, elements);
  if (dtype == DType::f16) return narrow<Half>(source, out, elements);
  if (dtype == DType::bf16) return narrow<BFloat>(source, out, elements);
  const QuantFormat* format = is_quantized(dtype) ? &quant_format(dtype) : nullptr;
  if (format == nullptr || format->encode == nullptr) throw bad_input("no encoder for {}", dtype_name(dtype));
  const DTypeInfo info = dtype_info(dtype);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = b * info.block_elements;
    format->encode(source + first, importance == nullptr ? nullptr : importance + first, out + b * info.block_bytes);
  }
}

}  // namespace gabbro
