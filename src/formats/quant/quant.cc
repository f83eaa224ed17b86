#include "src/formats/quant/quant.h"

#include <cassert>
#include <cstring>
#include <iterator>

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/formats/quant/blocks.h"

namespace gabbro {
namespace {

// In the order of DType, from q4_0 on.
constexpr const QuantFormat* kFormats[] = {
    &quant::kQ4_0, &quant::kQ4_1, &quant::kQ5_0, &quant::kQ5_1, &quant::kQ8_0,  &quant::kQ2K,
    &quant::kQ3K,  &quant::kQ4K,  &quant::kQ5K,  &quant::kQ6K,  &quant::kIq4Nl, &quant::kIq4Xs,
};
constexpr int kFirst = static_cast<int>(DType::q4_0);
static_assert(std::size(kFormats) == kDTypeCount - kFirst);

int64_t count_blocks(DType dtype, int64_t elements) {
  const int block = dtype_info(dtype).block_elements;
  if (elements < 0 || elements % block != 0) {
    throw bad_input("a row of {} {} elements is not a number of blocks of {}", elements, dtype_name(dtype), block);
  }
  return elements / block;
}

void dequantize_block(const QuantFormat& format, const DecodedBlock& block, float* out, int elements) {
  for (int first = 0; first < elements; first += format.group) {
    const int g = first / format.group;
    const float scale = block.scale * block.sub_scales[g];
    const float minimum = block.minimum * block.sub_minimums[g];
    for (int i = first; i < first + format.group; ++i) {
      const int code = block.codes[i];
      const int level = format.codebook != nullptr ? format.codebook[code] : code - format.zero;
      out[i] = format.has_minimum ? scale * level + minimum : scale * level;
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
  return *kFormats[static_cast<int>(dtype) - kFirst];
}

void dequantize_row(DType dtype, const std::byte* source, float* out, int64_t elements) {
  const int64_t blocks = count_blocks(dtype, elements);
  if (dtype == DType::f32) return widen<float>(source, out, elements);
  if (dtype == DType::f16) return widen<Half>(source, out, elements);
  if (dtype == DType::bf16) return widen<BFloat>(source, out, elements);
  if (!is_quantized(dtype)) throw bad_input("cannot dequantize {}", dtype_name(dtype));
  const QuantFormat& format = quant_format(dtype);
  const DTypeInfo info = dtype_info(dtype);
  DecodedBlock block;
  for (int64_t b = 0; b < blocks; ++b) {
    format.decode(source + b * info.block_bytes, block);
    dequantize_block(format, block, out + b * info.block_elements, info.block_elements);
  }
}

void quantize_row(DType dtype, const float* source, std::byte* out, int64_t elements) {
  const int64_t blocks = count_blocks(dtype, elements);
  if (dtype == DType::f32) return narrow<float>(source, out, elements);
  if (dtype == DType::f16) return narrow<Half>(source, out, elements);
  if (dtype == DType::bf16) return narrow<BFloat>(source, out, elements);
  const QuantFormat* format = is_quantized(dtype) ? &quant_format(dtype) : nullptr;
  if (format == nullptr || format->encode == nullptr) throw bad_input("cannot quantize to {}", dtype_name(dtype));
  const DTypeInfo info = dtype_info(dtype);
  for (int64_t b = 0; b < blocks; ++b) {
    format->encode(source + b * info.block_elements, out + b * info.block_bytes);
  }
}

}  // namespace gabbro
