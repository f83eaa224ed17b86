// Rounding error bounds. Tests derive their tolerances from them.
#pragma once

#include <cmath>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro::test {

// u, the largest relative error of rounding to the nearest number of a type; f32 for the block formats, whose products
// are added up in it.
constexpr double unit_roundoff(DType dtype) {
  return dtype == DType::f64 ? 0x1p-53 : dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
}

// n·u / (1 - n·u): the largest relative error of a result after n roundings. A sum of n products has at most n of them
// for each term, in any order; its error is relative to the sum of the absolute values of the terms (Higham, Accuracy
// and Stability of Numerical Algorithms, second edition, lemma 3.1 and section 3.1).
constexpr double rounding_bound(int64_t n, DType dtype = DType::f32) {
  const double nu = static_cast<double>(n) * unit_roundoff(dtype);
  return nu / (1 - nu);
}

// The length of the error of a long vector relative to that of the vector, after n independent roundings of its values
// to multiples of `step` times their deviation: an error is uniform within half a step, with a variance of step² / 12,
// and variances add up (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM Journal on
// Scientific Computing 41, 2019).
inline double rounding_deviation(int64_t n, double step) { return std::sqrt(static_cast<double>(n) / 12) * step; }

// Steps for rounding_deviation(). step_of() is the distance between neighboring numbers near 1. step_of_codes() is the
// distance between codes within ±levels: the largest of 32 normal values, about 2.5 deviations, gets the code `levels`.
constexpr double step_of(DType dtype) { return 2 * unit_roundoff(dtype); }
constexpr double step_of_codes(double levels) { return 2.5 / levels; }
// Codes of activations that meet quantized weights: GPUs have 8 bits, the CPU has 14.
inline constexpr double kGpuLevels = 127, kCpuLevels = 8191;

// Growth of an error in the layers after its rounding, at most: a key that is off moves all probabilities of its head,
// and a norm divides by a length.
inline constexpr double kGrowth = 3;

// Products in sequence of a transformer: q, k and v, the attention's output, gate and up, down; then the logits.
constexpr int64_t products_of(int64_t layers) { return 4 * layers + 1; }

}  // namespace gabbro::test
