// Row functions of reduce.cc, for one row or for adjacent rows: sum, prod, max, min, argmax and argmin of f32, f64,
// i32, i64, and of f16 and bf16 as f32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/rows/rows.h"

namespace gabbro::cpu::GABBRO_ISA {

template <class T>
constexpr T lowest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}
template <class T>
constexpr T highest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

// Integers wrap around: they are joined as unsigned numbers.
template <class T, class F>
T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return f(a, b);
  }
}
struct Sum {
  template <class T>
  static constexpr T start() {
    return 0;
  }
  template <class T>
  static T join(T a, T b) {
    return wrapped(a, b, std::plus<>());
  }
  static F32 join(F32 a, F32 b) { return a + b; }
  static float join_lanes(F32 x) { return reduce_sum(x); }
};
struct Product {
  template <class T>
  static constexpr T start() {
    return 1;
  }
  template <class T>
  static T join(T a, T b) {
    return wrapped(a, b, std::multiplies<>());
  }
  static F32 join(F32 a, F32 b) { return a * b; }
  static float join_lanes(F32 x) {
    float lanes[kLanes];
    store(lanes, x);
#pragma GCC unroll 4
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) lanes[j] *= lanes[j + width];
    }
    return lanes[0];
  }
};
// Vectors of what is largest so far come second, and so are kept where the others have NaN.
struct Max {
  template <class T>
  static constexpr T start() {
    return lowest<T>();
  }
  template <class T>
  static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
  static F32 join(F32 best, F32 x) { return max(x, best); }
  static float join_lanes(F32 x) { return reduce_max(x); }
};
struct Min {
  template <class T>
  static constexpr T start() {
    return highest<T>();
  }
  template <class T>
  static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
  static F32 join(F32 best, F32 x) { return min(x, best); }
  static float join_lanes(F32 x) { return -reduce_max(-x); }
};
template <class F>
inline constexpr bool kOverlooksNan = std::is_same_v<F, Max> || std::is_same_v<F, Min>;

// A row of neighbors by vectors: four running results, for each waits for the one before, and so rounding errors of
// sums grow 64 times slower. NaN is looked for in pairs of vectors.
template <class F, class T>
float reduce_neighbors(const T* x, int64_t count) {
  const F32 start = splat(F::template start<float>());
  F32 results[4] = {start, start, start, start};
  [[maybe_unused]] Mask has_nan = unordered(start, start);
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    if constexpr (kPrefetchElements > 0) {  // 4 % of f32 in the last cache of Zen 3
      constexpr int64_t kBytes = 4 * kLanes * sizeof(T), kLine = 64;
      for (int64_t line = 0; line < kBytes; line += kLine)
        prefetch(reinterpret_cast<const std::byte*>(x + i) + kPrefetchElements + line);
    }
#pragma GCC unroll 2
    for (int j = 0; j < 4; j += 2) {
      const F32 a = load_as_f32(x + i + j * kLanes), b = load_as_f32(x + i + (j + 1) * kLanes);
      if constexpr (kOverlooksNan<F>) has_nan = has_nan | unordered(a, b);
      results[j] = F::join(results[j], a);
      results[j + 1] = F::join(results[j + 1], b);
    }
  }
  for (; i < count; i += kLanes) {
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, count - i));
    const F32 a = only_first(load_some(x + i, lanes), lanes, F::template start<float>());
    if constexpr (kOverlooksNan<F>) has_nan = has_nan | unordered(a, a);
    results[0] = F::join(results[0], a);
  }
  if constexpr (kOverlooksNan<F>) {
    if (any(has_nan)) return std::numeric_limits<float>::quiet_NaN();
  }
  return F::join_lanes(F::join(F::join(results[0], results[1]), F::join(results[2], results[3])));
}

// Whether vectors of f32 hold it.
template <class T>
inline constexpr bool kVectors = std::is_same_v<Wide<T>, float>;

// Elements of a block with separate running results, so that rounding errors grow with the number of such blocks.
inline constexpr int64_t kRowBlock = 16384;

template <class T, class F>
Wide<T> reduce_block(const T* x, int64_t stride, int64_t count) {
  if constexpr (kVectors<T>) {
    if (stride == 1) return reduce_neighbors<F>(x, count);
  }
  // As many running results as a vector has lanes, so that the compiler can use vectors.
  Wide<T> lanes[kLanes];
  std::fill(lanes, lanes + kLanes, F::template start<Wide<T>>());
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] = F::join(lanes[j], static_cast<Wide<T>>(x[i + j]));
    }
  }
  for (int j = 0; i < count; ++i, j = (j + 1) % kLanes) {
    lanes[j] = F::join(lanes[j], static_cast<Wide<T>>(x[i * stride]));
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = F::join(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

template <class T, class F>
void reduce_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  const int64_t block = std::is_same_v<F, Sum> && !std::is_integral_v<T> ? kRowBlock : std::max<int64_t>(1, count);
  Wide<T> result = reduce_block<T, F>(x, stride, std::min(block, count));
  for (int64_t begin = block; begin < count; begin += block)
    result = F::join(result, reduce_block<T, F>(x + begin * stride, stride, std::min(block, count - begin)));
  *static_cast<Wide<T>*>(out) = result;
}

// Adjacent rows, up to kSide of them, element by element; runs of kRun elements, and kRun runs, have
// partial sums, so that rounding errors grow slower.
inline constexpr int64_t kSide = 256, kRun = 64;

// `count` neighbors from each of kElements places, `stride` apart, joined into as many results; NaN stays.
template <class F, int kElements, class T>
void join_neighbors(const T* x, int64_t stride, int64_t count, float* results) {
  for (int64_t j = 0; j < count; j += kLanes) {
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, count - j));
    F32 result = load_some(results + j, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < kElements; ++i) {
      const F32 a = load_some(x + i * stride + j, lanes), joined = F::join(result, a);
      result = kOverlooksNan<F> ? select(a == a, joined, a) : joined;
    }
    store_some(results + j, result, lanes);
  }
}
template <class F, int kElements, class T>
requires(!kVectors<T>) void join_neighbors(const T* x, int64_t stride, int64_t count, T* results) {
  for (int i = 0; i < kElements; ++i) {
    for (int64_t j = 0; j < count; ++j) results[j] = F::join(results[j], x[i * stride + j]);
  }
}

// Rows `first` to `last`, joined into the results.
template <class T, class F>
void reduce_runs(const T* x, int64_t stride, int64_t first, int64_t last, int64_t width, Wide<T>* results) {
  const auto reduce_run = [&](int64_t begin, int64_t end, Wide<T>* run) {
    std::fill_n(run, width, F::template start<Wide<T>>());
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) join_neighbors<F, 4>(x + i * stride, stride, width, run);
    for (; i < end; ++i) join_neighbors<F, 1>(x + i * stride, stride, width, run);
  };
  reduce_run(first, std::min(last, first + kRun), results);
  Wide<T> run[kSide];
  for (int64_t begin = first + kRun; begin < last; begin += kRun) {
    reduce_run(begin, std::min(last, begin + kRun), run);
    join_neighbors<F, 1>(run, 0, width, results);
  }
}

template <class T, class F>
void reduce_side(const void* rows, int64_t stride, int64_t count, void* out, int64_t width) {
  const T* x = static_cast<const T*>(rows);
  auto* all = static_cast<Wide<T>*>(out);
  constexpr int64_t kRuns = kRun * kRun;
  reduce_runs<T, F>(x, stride, 0, std::min(count, kRuns), width, all);
  Wide<T> runs[kSide];
  for (int64_t first = kRuns; first < count; first += kRuns) {
    reduce_runs<T, F>(x, stride, first, std::min(count, first + kRuns), width, runs);
    join_neighbors<F, 1>(runs, 0, width, all);
  }
}

template <bool kMax, class T>
bool is_better(T candidate, T best) {
  return best == best && ((kMax ? candidate > best : candidate < best) || candidate != candidate);
}

// The first place of `value`, which is somewhere, in a row of neighbors; of NaN that of any. Whole vectors are looked
// at first.
template <class T>
int64_t first_place(const T* x, int64_t count, Wide<T> value) {
  const auto is = [&](int64_t i) {
    const auto one = static_cast<Wide<T>>(x[i]);
    return value == value ? one == value : one != one;
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if constexpr (kVectors<T>) {
      const F32 some = load_as_f32(x + i);
      if (any(value == value ? some == splat(value) : unordered(some, some))) break;
    } else {
      int found = 0;
      for (int j = 0; j < kLanes; ++j) found |= is(i + j);
      if (found) break;
    }
  }
  while (!is(i)) ++i;
  return i;
}

template <class T, bool kMax>
void arg_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  int64_t best = 0;
  if (stride == 1 && count > 0) {  // the value by vectors, and then where it is
    Wide<T> value;
    reduce_row<T, std::conditional_t<kMax, Max, Min>>(row, 1, count, &value);
    best = first_place(x, count, value);
  } else if (count > 0) {
    auto value = static_cast<Wide<T>>(x[0]);
    for (int64_t i = 1; i < count; ++i) {
      const auto one = static_cast<Wide<T>>(x[i * stride]);
      if (!is_better<kMax>(one, value)) continue;
      value = one;
      best = i;
    }
  }
  *static_cast<int32_t*>(out) = static_cast<int32_t>(best);
}

// `width` neighbors in their type for computing: f16 and bf16 as f32 in `memory`.
template <class T>
const Wide<T>* widened(const T* x, int64_t width, Wide<T>* memory) {
  if constexpr (kHalf<T>) {
    widen(x, 1, memory, width);
    return memory;
  } else {
    return x;
  }
}

template <class T, bool kMax>
void arg_side(const void* rows, int64_t stride, int64_t count, void* out, int64_t width) {
  const T* x = static_cast<const T*>(rows);
  auto* best = static_cast<int32_t*>(out);
  Wide<T> values[kSide], memory[kSide];
  std::fill_n(best, width, 0);
  if (count == 0) return;
  std::copy_n(widened(x, width, memory), width, values);
  for (int64_t i = 1; i < count; ++i) {
    const Wide<T>* row = widened(x + i * stride, width, memory);
    for (int64_t j = 0; j < width; ++j) {
      const bool better = is_better<kMax>(row[j], values[j]);
      values[j] = better ? row[j] : values[j];
      best[j] = better ? static_cast<int32_t>(i) : best[j];
    }
  }
}

// The results of parts of rows: of `rows` rows, `row_stride` apart, from their columns `begin` on.
struct Part {
  const void* x;  // the first row
  int64_t rows, row_stride, stride;
  int64_t begin;
  const void* results;
};

// Part by part, in order, each joined into the results of the parts before.
template <class T, class F>
void join_results(const Part& part, void* out) {
  join_neighbors<F, 1>(static_cast<const Wide<T>*>(part.results), 0, part.rows, static_cast<Wide<T>*>(out));
}
template <class T, bool kMax>
void join_places(const Part& part, void* out) {
  for (int64_t row = 0; row < part.rows; ++row) {
    const T* x = static_cast<const T*>(part.x) + row * part.row_stride;
    int32_t& best = static_cast<int32_t*>(out)[row];
    const auto candidate = static_cast<int32_t>(part.begin + static_cast<const int32_t*>(part.results)[row]);
    const auto better = static_cast<Wide<T>>(x[candidate * part.stride]);
    if (is_better<kMax>(better, static_cast<Wide<T>>(x[best * part.stride]))) best = candidate;
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
