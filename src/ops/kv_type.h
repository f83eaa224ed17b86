// Types of keys and values in a cache: f32, bf16, f16, and in blocks of 32 elements of a head q8_0 and q4_0.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "gabbro/tensor/tensor.h"

namespace gabbro {

inline constexpr std::initializer_list<DType> kKvTypes = {DType::f32, DType::bf16, DType::f16, DType::q8_0,
                                                          DType::q4_0};
inline constexpr int64_t kKvBlock = 32;  // elements with one scale

// "f32, bf16, f16, q8_0 or q4_0"
std::string kv_type_names();
std::optional<DType> parse_kv_type(std::string_view name);

// Elements of a cache of this type: i8 for q8_0, u8 of two elements each for q4_0.
DType kv_elements(DType kv_type);
// Whether these elements have scales, f16 for each block.
constexpr bool has_kv_scales(DType elements) { return elements == DType::i8 || elements == DType::u8; }
// Elements of `elements` that hold `dimension` numbers, and back.
constexpr int64_t stored_length(DType elements, int64_t dimension) {
  return elements == DType::u8 ? dimension / 2 : dimension;
}
constexpr int64_t plain_length(DType elements, int64_t stored) { return elements == DType::u8 ? stored * 2 : stored; }

// Numbers as a cache holds them.
struct KvNumbers {
  Tensor elements;  // [..., D], or [..., D/2] of u8
  Tensor scales;    // f16 [..., D/32], or undefined
};

// Compositions of the two conversions, for devices without a kernel of the type and for caches without pages.
// x is f32 [..., D]; with q8_0 and q4_0 D is a multiple of 32.
KvNumbers kv_encode(const Tensor& x, DType kv_type);
// As f32; D is axis `axis` of the elements and of the scales.
Tensor kv_decode(const KvNumbers& numbers, int axis);

}  // namespace gabbro
