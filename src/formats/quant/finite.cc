#include "src/formats/quant/finite.h"

#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro {
namespace {

using quant::is_finite_half, quant::load_nibbles, quant::load_word;

template <class Bits>
bool all_below(const std::byte* source, int64_t count, Bits exponent) {
  bool fine = true;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, source + static_cast<size_t>(i) * sizeof(bits), sizeof(bits));
    fine &= (bits & exponent) != exponent;  // all ones: infinity or NaN
  }
  return fine;
}

// Whether check(block) is true of each of `count` blocks.
template <class Check>
bool all_blocks(const std::byte* block, int64_t count, size_t bytes, Check check) {
  bool fine = true;
  for (int64_t b = 0; b < count; ++b, block += bytes) fine &= check(block);
  return fine;
}

bool all_scales_finite(const QuantTraits& traits, const std::byte* source, int64_t count) {
  const std::byte* first = source + traits.scale_at;
  const auto bytes = static_cast<size_t>(traits.block_bytes);
  switch (traits.scale) {
    case ScaleCode::kF16:
      return all_blocks(first, count, bytes, [](const std::byte* at) { return is_finite_half(load_word(at)); });
    case ScaleCode::kF16Nibbles:
      return all_blocks(first, count, bytes, [](const std::byte* at) { return is_finite_half(load_nibbles(at)); });
    case ScaleCode::kE8M0:  // 255 is a NaN, and 253 and 254 times the largest level overflow
      return all_blocks(first, count, bytes, [](const std::byte* at) { return std::to_integer<int>(*at) < 253; });
    case ScaleCode::kF32:  // the largest level times it is finite too
      return all_blocks(first, count, bytes, [](const std::byte* at) {
        float scale;
        std::memcpy(&scale, at, sizeof scale);
        return std::fabs(scale) < 0x1p119f;
      });
    case ScaleCode::kUE4M3:
      return true;  // its NaN reads as 0
  }
  return false;
}

}  // namespace

bool all_finite(DType dtype, const std::byte* source, int64_t elements) {
  if (is_quantized(dtype)) {
    const QuantTraits& traits = quant_traits(dtype);
    const int64_t blocks = elements / traits.block_elements;
    if (!all_scales_finite(traits, source, blocks)) return false;
    return !traits.has_minimum() ||
           all_blocks(source + traits.minimum_at, blocks, static_cast<size_t>(traits.block_bytes),
                      [](const std::byte* at) { return is_finite_half(load_word(at)); });
  }
  switch (dtype) {
    case DType::f32:
      return all_below<uint32_t>(source, elements, 0x7f800000u);
    case DType::f16:
      return all_below<uint16_t>(source, elements, 0x7c00);
    case DType::bf16:
      return all_below<uint16_t>(source, elements, 0x7f80);
    default:
      throw bad_input("weights of type {} are not supported", dtype_name(dtype));
  }
}

}  // namespace gabbro
