#include "src/formats/quant/finite.h"

#include <cstring>

#include "src/base/error.h"

namespace gabbro {
namespace {

template <class Bits>
bool all_below(const std::byte* source, int64_t count, size_t stride, Bits exponent) {
  bool fine = true;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, source + static_cast<size_t>(i) * stride, sizeof(bits));
    fine &= (bits & exponent) != exponent;  // all ones: infinity or NaN
  }
  return fine;
}

constexpr uint16_t kHalfExponent = 0x7c00;

}  // namespace

HalfPlaces half_places(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108, -1};
    case DType::q6_k:
      return {208, -1};
    default:
      return {0, -1};
  }
}

bool all_finite(DType dtype, const std::byte* source, int64_t elements) {
  if (is_quantized(dtype)) {
    const DTypeInfo info = dtype_info(dtype);
    const HalfPlaces places = half_places(dtype);
    const int64_t blocks = elements / info.block_elements;
    if (!all_below<uint16_t>(source + places.scale, blocks, info.block_bytes, kHalfExponent)) return false;
    return places.minimum < 0 || all_below<uint16_t>(source + places.minimum, blocks, info.block_bytes, kHalfExponent);
  }
  switch (dtype) {
    case DType::f32:
      return all_below<uint32_t>(source, elements, 4, 0x7f800000u);
    case DType::f16:
      return all_below<uint16_t>(source, elements, 2, kHalfExponent);
    case DType::bf16:
      return all_below<uint16_t>(source, elements, 2, 0x7f80);
    default:
      throw bad_input("weights of type {} are not supported", dtype_name(dtype));
  }
}

}  // namespace gabbro
