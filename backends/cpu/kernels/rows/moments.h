// Means and sums of squared distances of blocks of elements, in f32, and the merging of the blocks' moments, in f64, so
// that errors do not grow with the number of elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements of a block: 16 KB of f32, which the first cache holds for a second pass.
inline constexpr int64_t kMomentBlock = 4096;

struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of (x - mean)²

  // Chan et al. (1979).
  void merge(const Moments& other) {
    if (count == 0) {
      *this = other;
      return;
    }
    const double distance = other.mean - mean, all = count + other.count, part = other.count / all;
    mean += distance * part;
    squares += other.squares + distance * distance * count * part;
    count = all;
  }
};

// The value from which distances are taken: the mean, or the first element where the mean of equal elements could be
// that with a rounding error, so that equal elements have a variance of 0.
inline float moment_center(float first, float mean) {
  return std::abs(mean - first) <= 0x1p-17f * std::abs(first) ? first : mean;
}

// From the sums of x - center and (x - center)²: Neely's (1966) correction for a center that is not the mean.
inline Moments centered_moments(double count, double center, double sum, double squares) {
  return {.count = count, .mean = center + sum / count, .squares = std::max(0.0, squares - sum * (sum / count))};
}

// Moments of a few numbers in f64: if f32 overflows, and for infinities. `each` is that of block_moments.
template <class T, class Each>
Moments wide_moments(int64_t count, Each&& each) {
  double sum = 0, squares = 0;
  each([&](const T* x, int64_t length) {
    for (int64_t i = 0; i < length; ++i) sum += static_cast<double>(static_cast<float>(x[i]));
  });
  const double mean = sum / static_cast<double>(count);
  each([&](const T* x, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      const double distance = static_cast<double>(static_cast<float>(x[i])) - mean;
      squares += distance * distance;
    }
  });
  return {.count = static_cast<double>(count), .mean = mean, .squares = squares};
}

// The sum of x - center and of its squares over a block.
struct CenteredSums {
  float rest = 0;
  float square = 0;

  // Whether center is so close to the mean, in standard deviations, that the correction for it is exact enough.
  bool are_close(float count) const { return rest * (rest / count) <= 0.25f * square; }
};

template <class Each>
CenteredSums centered_sums(float center, Each&& each) {
  const F32 centers = splat(center);
  F32 rests[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  F32 squares[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  each([&](const auto* x, int64_t length) {
    for_vectors(length, [&](int64_t i, int lanes, int k) {
      const F32 distance = only_first(load_some(x + i, lanes) - centers, lanes, 0);
      rests[k] += distance;
      squares[k] = fma(distance, distance, squares[k]);
    });
  });
  return {.rest = reduce_sum((rests[0] + rests[1]) + (rests[2] + rests[3])),
          .square = reduce_sum((squares[0] + squares[1]) + (squares[2] + squares[3]))};
}

// The mean of the first elements, which are read next in any case: elements further on would be waited for.
template <class Each>
float mean_of_first(Each&& each) {
  constexpr int64_t kFirst = 4 * kLanes;
  F32 sum = zero_f32();
  int64_t count = 0;
  each([&](const auto* x, int64_t length) {
    for (int64_t i = 0; i < length && count < kFirst; i += kLanes) {
      const auto lanes = static_cast<int>(std::min<int64_t>(kLanes, length - i));
      sum += load_some(x + i, lanes);
      count += lanes;
    }
  });
  return reduce_sum(sum) / static_cast<float>(count);
}

// Moments of a block of `count` elements that begins with `first`. each(body) calls body(x, length) for each of
// the contiguous runs that it consists of. Elements are read a second time only where the mean of the first is far from
// that of all.
template <class T, class Each>
Moments block_moments(const T& first, int64_t count, Each&& each) {
  const auto elements = static_cast<float>(count);
  float center = moment_center(static_cast<float>(first), mean_of_first(each));
  CenteredSums sums = centered_sums(center, each);
  if (!sums.are_close(elements)) {
    center = moment_center(static_cast<float>(first), center + sums.rest / elements);
    sums = centered_sums(center, each);
  }
  if (!std::isfinite(sums.square)) return wide_moments<T>(count, each);
  return centered_moments(elements, center, sums.rest, sums.square);
}

// Moments of contiguous elements, block by block.
template <class T>
Moments row_moments(const T* x, int64_t count) {
  Moments all;
  for (int64_t begin = 0; begin < count; begin += kMomentBlock) {
    const int64_t length = std::min(kMomentBlock, count - begin);
    all.merge(block_moments(x[begin], length, [&](auto body) { body(x + begin, length); }));
  }
  return all;
}

}  // namespace gabbro::cpu::GABBRO_ISA
