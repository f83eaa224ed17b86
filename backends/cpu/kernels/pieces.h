// Elementwise loops over whole vectors of elements, for functions that a compiler makes vectors of.
#pragma once

#include <algorithm>

#include "backends/cpu/kernels/elementwise/elementwise.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements of a piece. A loop over up to 16 is unrolled by g++ before it could become vectors.
inline constexpr int kPiece = 32;

// Whole pieces, so that an element's value does not depend on where it is: a compiler's vectors and
// its single elements may differ in the last bit. `f` maps a piece. What is missing of the last one is 1.
template <class T, class F>
void map_pieces(const Row& row, F f) {
  const T* a = static_cast<const T*>(row.in[0]);
  T* out = static_cast<T*>(row.out);
  for (int64_t i = 0; i < row.count; i += kPiece) {
    const int64_t count = std::min<int64_t>(kPiece, row.count - i);
    T in[kPiece], result[kPiece];
    if (count == kPiece && row.stride[0] == 1) {
      std::copy_n(a + i, kPiece, in);
    } else {
      for (int64_t j = 0; j < kPiece; ++j) in[j] = j < count ? a[(i + j) * row.stride[0]] : T{1};
    }
    f(in, result);
    if (count == kPiece) {
      std::copy_n(result, kPiece, out + i);
    } else {
      std::copy_n(result, count, out + i);
    }
  }
}

// The same of two inputs.
template <class T, class F>
void map_pieces2(const Row& row, F f) {
  T* out = static_cast<T*>(row.out);
  for (int64_t i = 0; i < row.count; i += kPiece) {
    const int64_t count = std::min<int64_t>(kPiece, row.count - i);
    T in[2][kPiece], result[kPiece];
    for (int k = 0; k < 2; ++k) {
      const T* a = static_cast<const T*>(row.in[k]) + i * row.stride[k];
      if (count == kPiece && row.stride[k] == 1) {
        std::copy_n(a, kPiece, in[k]);
      } else {
        for (int64_t j = 0; j < kPiece; ++j) in[k][j] = j < count ? a[j * row.stride[k]] : T{1};
      }
    }
    f(in[0], in[1], result);
    if (count == kPiece) {
      std::copy_n(result, kPiece, out + i);
    } else {
      std::copy_n(result, count, out + i);
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
