#include "src/pictures/precision.h"

#include <cmath>
#include <cstdint>

#include "src/base/error.h"

namespace gabbro::pictures {

Precision parse_precision(const std::string& name) {
  if (name == "auto") return Precision::kAuto;
  if (name == "f32" || name == "float32") return Precision::kF32;
  if (name == "f16" || name == "float16") return Precision::kF16;
  if (name == "bf16" || name == "bfloat16") return Precision::kBf16;
  throw bad_input("precision '{}' is none of auto, f32, f16, bf16", name);
}

DType dtype_of(Precision precision, const abi::DeviceFacts& facts) {
  if (precision == Precision::kAuto) return facts.wave_size > 1 ? DType::f16 : DType::f32;
  if (precision == Precision::kF16) return DType::f16;
  return precision == Precision::kBf16 ? DType::bf16 : DType::f32;
}

bool all_finite(const std::vector<float>& values) {
  uint32_t others = 0;  // without a branch, in vectors
  for (const float value : values) others |= std::isfinite(value) ? 0 : 1;
  return others == 0;
}

}  // namespace gabbro::pictures
