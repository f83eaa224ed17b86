// The difference of logits that have the same text, computed in chunks of other lengths.
#pragma once

#include <cmath>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro::test {

// Relative to the largest logit. Additions come in another order: a sum of `tokens` products in f32 changes by tokens ·
// 2^-24 at most, and so a rounded key or value may become its neighbor. A neighbor is `step` away, relative to the
// largest value of its block. The keys and the values of the layers have independent errors.
inline double cache_tolerance(DType kv_type, int64_t layers, int64_t tokens) {
  const double step = kv_type == DType::bf16   ? 0x1p-7
                      : kv_type == DType::f16  ? 0x1p-10
                      : kv_type == DType::q8_0 ? 1.0 / 127
                      : kv_type == DType::q4_0 ? 1.0 / 8
                                               : 0x1p-23;
  return std::sqrt(2 * static_cast<double>(layers)) * step + static_cast<double>(tokens) * 0x1p-24;
}

}  // namespace gabbro::test
