// Elements of tensors of a file, which need not be aligned. Indices are of elements.
#pragma once

#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/base/half.h"
#include "src/formats/checkpoint.h"

namespace gabbro::published {

template <class T>
T element(const CheckpointTensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// 2^(code - 127), the scale format of the OCP's MX specification; 255 is NaN.
inline float e8m0_value(uint8_t code) { return code == 255 ? NAN : std::ldexp(1.0f, code - 127); }

// An element of an f32, f16, bf16 or E8M0 tensor.
inline float number(const CheckpointTensor& tensor, int64_t index) {
  if (tensor.format == "F8_E8M0") return e8m0_value(element<uint8_t>(tensor, index));
  if (tensor.format == "F32") return element<float>(tensor, index);
  if (tensor.format == "F16") return half_bits_to_float(element<uint16_t>(tensor, index));
  return bfloat_bits_to_float(element<uint16_t>(tensor, index));
}

inline std::vector<std::string_view> number_types() { return {"F32", "F16", "BF16", "F8_E8M0"}; }

inline bool is_exact_half(float value) {
  return std::isfinite(value) && half_bits_to_float(float_to_half_bits(value)) == value;
}

}  // namespace gabbro::published
