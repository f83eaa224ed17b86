// Elementwise loops over whole vectors of elements, for functions that a compiler makes vectors of.
#pragma once

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/elementwise/elementwise.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements of a piece. A loop over up to 16 is unrolled by g++ before it could become vectors.
inline constexpr int kPiece = 32;

// Whole pieces, so that an element's value does not depend on where it is: a compiler's vectors and
// its single elements may differ in the last bit. `f` maps a piece to another buffer. Elements missing in the last one
// are 1.
template <class T, class F>
void map_pieces(const Row& row, F f) {
  const T* a = static_cast<const T*>(row.in[0]);
  T* out = static_cast<T*>(row.out);
  for (int64_t i = 0; i < row.count; i += kPiece) {
    const int64_t count = std::min<int64_t>(kPiece, row.count - i);
    // A vector loaded from copies that g++ makes 16 bytes at a time would wait for their stores.
    const bool in_place = count == kPiece && row.stride[0] == 1;
    T in[kPiece], result[kPiece];
    if (!in_place) {
      for (int64_t j = 0; j < kPiece; ++j) in[j] = j < count ? a[(i + j) * row.stride[0]] : T{1};
    }
    f(in_place ? a + i : in, result);
    if (count == kPiece) {
      std::copy_n(result, kPiece, out + i);
    } else {
      std::copy_n(result, count, out + i);
    }
  }
}

// Rows of functions that a compiler's vectors do not compute to the last bit as its single elements.
template <class T, T (*kFunction)(T)>
void pieces_of(const Row& row) {
  map_pieces<T>(row, [](const T* x, T* y) {
    for (int i = 0; i < kPiece; ++i) y[i] = kFunction(x[i]);
  });
}

// Whether no element of a piece is beyond ±most. A NaN may count as either.
inline bool are_within(const float* x, float most) {
  Mask outside = splat(most) < abs(load(x));
  for (int i = kLanes; i < kPiece; i += kLanes) outside = outside | (splat(most) < abs(load(x + i)));
  return !any(outside);
}
inline bool are_within(const double* x, double most) {
  int outside = 0;
  for (int i = 0; i < kPiece; ++i) outside |= static_cast<int>(!(std::fabs(x[i]) <= most));
  return outside == 0;
}

// Rows of a function that is cheaper, or exact enough, within ±kMost only; other arguments take another one.
template <class T, T (*kWithin)(T), T (*kElsewhere)(T), const T& kMost>
void reduced_pieces_of(const Row& row) {
  map_pieces<T>(row, [](const T* x, T* y) {
    for (int i = 0; i < kPiece; ++i) y[i] = kWithin(x[i]);
    if (are_within(x, kMost)) return;
    for (int i = 0; i < kPiece; ++i) {
      if (!(std::fabs(x[i]) <= kMost)) y[i] = kElsewhere(x[i]);
    }
  });
}

// Whether all elements of a piece are normal numbers above 0.
inline bool are_normal(const float* x) {
  static_assert(kPiece == 2 * kLanes);
  const F32 a = load(x), b = load(x + kLanes);
  return !any((min(a, b) < splat(0x1p-126f)) | (splat(0x1.fffffep127f) < max(a, b)) | unordered(a, b));
}

// Rows of a function that is cheaper for normal numbers above 0; a piece with another one takes kAny.
template <float (*kNormal)(float), float (*kAny)(float)>
void normal_pieces_of(const Row& row) {
  map_pieces<float>(row, [](const float* x, float* y) {
    if (are_normal(x)) {
      for (int i = 0; i < kPiece; ++i) y[i] = kNormal(x[i]);
    } else {
      for (int i = 0; i < kPiece; ++i) y[i] = kAny(x[i]);
    }
  });
}

// Whole pieces of two inputs.
template <class T, class F>
void map_pieces2(const Row& row, F f) {
  T* out = static_cast<T*>(row.out);
  for (int64_t i = 0; i < row.count; i += kPiece) {
    const int64_t count = std::min<int64_t>(kPiece, row.count - i);
    T in[2][kPiece], result[kPiece];
    const T* x[2];
    for (int k = 0; k < 2; ++k) {
      x[k] = static_cast<const T*>(row.in[k]) + i * row.stride[k];
      if (count == kPiece && row.stride[k] == 1) continue;
      for (int64_t j = 0; j < kPiece; ++j) in[k][j] = j < count ? x[k][j * row.stride[k]] : T{1};
      x[k] = in[k];
    }
    f(x[0], x[1], result);
    if (count == kPiece) {
      std::copy_n(result, kPiece, out + i);
    } else {
      std::copy_n(result, count, out + i);
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
