// Element types: plain numbers, and the block-quantized formats of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::iq4_xs) + 1;

// A block of `block_elements` consecutive elements of a row takes `block_bytes`; plain types have blocks of one.
struct DTypeInfo {
  std::string_view name;
  uint16_t block_elements;
  uint16_t block_bytes;
};

constexpr DTypeInfo dtype_info(DType dtype) {
  constexpr DTypeInfo kTable[kDTypeCount] = {
      {"f32", 1, 4},      {"f16", 1, 2},        {"bf16", 1, 2},     {"f64", 1, 8},      {"i8", 1, 1},
      {"u8", 1, 1},       {"i16", 1, 2},        {"i32", 1, 4},      {"i64", 1, 8},      {"bool", 1, 1},
      {"q4_0", 32, 18},   {"q4_1", 32, 20},     {"q5_0", 32, 22},   {"q5_1", 32, 24},   {"q8_0", 32, 34},
      {"q2_k", 256, 84},  {"q3_k", 256, 110},   {"q4_k", 256, 144}, {"q5_k", 256, 176}, {"q6_k", 256, 210},
      {"iq4_nl", 32, 18}, {"iq4_xs", 256, 136},
  };
  return kTable[static_cast<int>(dtype)];
}

constexpr std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
constexpr bool is_quantized(DType dtype) { return dtype >= DType::q4_0; }
constexpr bool is_floating(DType dtype) { return dtype <= DType::f64; }

// Bytes of `elements` consecutive elements; `elements` is a multiple of the block size.
constexpr size_t dtype_bytes(DType dtype, size_t elements) {
  return elements / dtype_info(dtype).block_elements * dtype_info(dtype).block_bytes;
}

}  // namespace gabbro
#pragma GCC visibility pop
