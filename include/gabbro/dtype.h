// Element types: plain numbers, and the block-quantized formats of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gabbro/quant_traits.h"

#pragma GCC visibility push(default)
namespace gabbro {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  u8,
  i16,
  i32,
  i64,
  boolean,
// Block-quantized: `linear`, `embedding` and `dequantize` alone accept them.
#define GABBRO_APPLY(name, ...) name,
  GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
};
inline constexpr int kFirstQuantized = static_cast<int>(DType::boolean) + 1;

// In the order of DType, from kFirstQuantized on.
inline constexpr QuantTraits kQuantTraits[] = {
#define GABBRO_APPLY(name, ...) formats::name,
    GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
};
inline constexpr int kQuantFormatCount = sizeof(kQuantTraits) / sizeof(QuantTraits);
inline constexpr int kDTypeCount = kFirstQuantized + kQuantFormatCount;

constexpr bool is_quantized(DType dtype) { return static_cast<int>(dtype) >= kFirstQuantized; }
constexpr bool is_floating(DType dtype) { return dtype <= DType::f64; }

// The row of a quantized dtype.
constexpr const QuantTraits& quant_traits(DType dtype) {
  return kQuantTraits[static_cast<int>(dtype) - kFirstQuantized];
}

// A block of `block_elements` consecutive elements of a row takes `block_bytes`; plain types have blocks of one.
struct DTypeInfo {
  std::string_view name;
  uint16_t block_elements;
  uint16_t block_bytes;
};

constexpr DTypeInfo dtype_info(DType dtype) {
  constexpr DTypeInfo kTable[kDTypeCount] = {{"f32", 1, 4},
                                             {"f16", 1, 2},
                                             {"bf16", 1, 2},
                                             {"f64", 1, 8},
                                             {"i8", 1, 1},
                                             {"u8", 1, 1},
                                             {"i16", 1, 2},
                                             {"i32", 1, 4},
                                             {"i64", 1, 8},
                                             {"bool", 1, 1},
#define GABBRO_APPLY(name, ...) {#name, formats::name.block_elements, formats::name.block_bytes},
                                             GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
  };
  return kTable[static_cast<int>(dtype)];
}

constexpr std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

// Bytes of `elements` consecutive elements; `elements` is a multiple of the block size.
constexpr size_t dtype_bytes(DType dtype, size_t elements) {
  return elements / dtype_info(dtype).block_elements * dtype_info(dtype).block_bytes;
}

}  // namespace gabbro
#pragma GCC visibility pop
