// Reductions over the last axis, f32, f64, i32 and i64: x [..., C] to [..., 1]. Integers wrap around. A NaN makes sum,
// prod, max, min NaN and is what argmax and argmin find first; of equal elements they find the first. Over nothing: sum
// 0, prod 1, max and min the lowest and the highest number, argmax and argmin 0.
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/kernels/strided.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

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
};
struct Max {
  template <class T>
  static constexpr T start() {
    return lowest<T>();
  }
  template <class T>
  static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
  static F32 join(F32 x, F32 y) { return select(x == x, select(y < x, x, y), x); }
  static F32 join_numbers(F32 x, F32 y) { return max(x, y); }
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
  static F32 join(F32 x, F32 y) { return select(x == x, select(x < y, x, y), x); }
  static F32 join_numbers(F32 x, F32 y) { return min(x, y); }
};

// The extreme of whole vectors of numbers, four at a time, for each waits for the one before. False where one of them
// is NaN or an infinity: these times zero are NaN.
template <class F>
bool extreme_of_numbers(const float* x, int64_t count, float* lanes) {
  F32 best[4] = {load(x), load(x + kLanes), load(x + 2 * kLanes), load(x + 3 * kLanes)};
  F32 zeros[4] = {};
  for (int64_t i = 0; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const F32 values = load(x + i + j * kLanes);
      best[j] = F::join_numbers(best[j], values);
      zeros[j] = fma(values, zero_f32(), zeros[j]);
    }
  }
  store(lanes, F::join_numbers(F::join_numbers(best[0], best[1]), F::join_numbers(best[2], best[3])));
  return reduce_sum((zeros[0] + zeros[1]) + (zeros[2] + zeros[3])) == 0;
}

// Sixteen running results, so that the compiler can use vectors and rounding errors of sums grow sixteen times slower.
template <class T, class F>
void reduce_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, F::template start<T>());
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float> && (std::is_same_v<F, Max> || std::is_same_v<F, Min>)) {
    // The compiler makes no vectors of what looks at NaN.
    if (stride == 1 && count >= 4 * kLanes && extreme_of_numbers<F>(x, count, lanes)) {
      i = count / (4 * kLanes) * (4 * kLanes);
    } else if (stride == 1 && count >= 4 * kLanes) {
      F32 best[4] = {load(x), load(x + kLanes), load(x + 2 * kLanes), load(x + 3 * kLanes)};
      for (i = 4 * kLanes; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) best[j] = F::join(best[j], load(x + i + j * kLanes));
      }
      store(lanes, F::join(F::join(best[0], best[1]), F::join(best[2], best[3])));
    }
  }
  if constexpr (std::is_same_v<T, float> && std::is_same_v<F, Sum>) {
    if (stride == 1 && count >= 4 * kLanes) {
      F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
      for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) sums[j] += load(x + i + j * kLanes);
      }
      store(lanes, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }
  if (stride == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] = F::join(lanes[j], x[i + j]);
    }
  }
  for (int j = 0; i < count; ++i, j = (j + 1) % kLanes) lanes[j] = F::join(lanes[j], x[i * stride]);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = F::join(lanes[j], lanes[j + width]);
  }
  *static_cast<T*>(out) = lanes[0];
}

// Rows that lie side by side, up to kSide of them, element by element; runs of kRun elements have sums of their own, so
// that rounding errors grow slower.
constexpr int64_t kSide = 256, kRun = 64;

template <class T, class F>
void reduce_side(const void* rows, int64_t stride, int64_t count, void* out, int64_t width) {
  const T* x = static_cast<const T*>(rows);
  T all[kSide], run[kSide];
  std::fill(all, all + width, F::template start<T>());
  for (int64_t begin = 0; begin < count; begin += kRun) {
    std::copy_n(x + begin * stride, width, run);
    for (int64_t i = begin + 1; i < std::min(count, begin + kRun); ++i) {
      const T* row = x + i * stride;
      for (int64_t j = 0; j < width; ++j) run[j] = F::join(run[j], row[j]);
    }
    for (int64_t j = 0; j < width; ++j) all[j] = F::join(all[j], run[j]);
  }
  std::copy_n(all, width, static_cast<T*>(out));
}

template <class T, bool kMax>
bool is_better(T candidate, T best) {
  return best == best && ((kMax ? candidate > best : candidate < best) || candidate != candidate);
}

// The first place of a row of neighbours where `is` holds; it holds somewhere. Whole vectors are looked at first.
template <class T, class Is>
int64_t first_place(const T* x, int64_t count, Is is) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    int any = 0;
    for (int j = 0; j < kLanes; ++j) any |= is(x[i + j]);
    if (any) break;
  }
  while (!is(x[i])) ++i;
  return i;
}

template <class T, bool kMax>
void arg_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  int64_t best = 0;
  if (stride == 1 && count > 0) {  // the value by vectors, and then where it is
    T value;
    reduce_row<T, std::conditional_t<kMax, Max, Min>>(row, 1, count, &value);
    best = value == value ? first_place(x, count, [value](T one) { return one == value; })
                          : first_place(x, count, [](T one) { return one != one; });
    *static_cast<int32_t*>(out) = static_cast<int32_t>(best);
    return;
  }
  for (int64_t i = 1; i < count; ++i) {
    if (is_better<T, kMax>(x[i * stride], x[best * stride])) best = i;
  }
  *static_cast<int32_t*>(out) = static_cast<int32_t>(best);
}

template <class T, bool kMax>
void arg_side(const void* rows, int64_t stride, int64_t count, void* out, int64_t width) {
  const T* x = static_cast<const T*>(rows);
  auto* best = static_cast<int32_t*>(out);
  T values[kSide];
  std::fill_n(best, width, 0);
  if (count == 0) return;
  std::copy_n(x, width, values);
  for (int64_t i = 1; i < count; ++i) {
    const T* row = x + i * stride;
    for (int64_t j = 0; j < width; ++j) {
      const bool better = is_better<T, kMax>(row[j], values[j]);
      values[j] = better ? row[j] : values[j];
      best[j] = better ? static_cast<int32_t>(i) : best[j];
    }
  }
}

// How results of a row's parts, in order, are joined: those of `part` (which begins at column `begin`) into `out`.
template <class T, class F>
void join_results(const void*, int64_t, int64_t, const void* part, void* out) {
  T& all = *static_cast<T*>(out);
  all = F::join(all, *static_cast<const T*>(part));
}
template <class T, bool kMax>
void join_places(const void* row, int64_t stride, int64_t begin, const void* part, void* out) {
  const T* x = static_cast<const T*>(row);
  int32_t& best = *static_cast<int32_t*>(out);
  const auto candidate = static_cast<int32_t>(begin + *static_cast<const int32_t*>(part));
  if (is_better<T, kMax>(x[candidate * stride], x[best * stride])) best = candidate;
}

struct Functions {
  void (*row)(const void* row, int64_t stride, int64_t count, void* out);
  void (*side)(const void* rows, int64_t stride, int64_t count, void* out, int64_t width);
  void (*join)(const void* row, int64_t stride, int64_t begin, const void* part, void* out);
};

// Few pieces of work with many elements each are cut into parts, whose number depends on the shape alone.
constexpr int64_t kFewPieces = 16, kPartElements = 32768, kMostParts = 64;

class Reduce : public Kernel {
 public:
  Reduce(const abi::KernelRequest& request, const Functions& functions) : functions_(functions) {
    abi::TensorView x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    stride_ = x.strides[x.rank - 1];
    x.rank -= 1;
    walk_ = StridedWalk({&x, 1});
    rows_ = walk_.total();
    element_ = static_cast<int64_t>(dtype_bytes(x.dtype, 1));
    result_ = static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1));
    side_ = stride_ != 1 && walk_.row_stride(0) == 1 && rows_ > 1;
    const int64_t together = side_ ? std::min(kSide, rows_) : 1;
    if (rows_ <= kFewPieces * together)
      parts_ = std::clamp<int64_t>(columns_ * together / kPartElements, 1, std::min(kMostParts, columns_ + 1));
    scratch_bytes = parts_ > 1 ? static_cast<size_t>(parts_ * rows_ * result_) : 0;
    implementation = std::string(request.op) + " " + std::string(dtype_name(x.dtype));
    bytes = static_cast<double>(rows_) * static_cast<double>(columns_ * element_ + result_);
    flops = static_cast<double>(rows_) * static_cast<double>(columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    if (parts_ == 1) {
      const int64_t grain = side_ ? std::max(kSide, row_grain(columns_)) : row_grain(columns_);
      worker.parallel_for(rows_, grain, [&](int64_t begin, int64_t end) { reduce(x, y, begin, end, 0, columns_); });
      return;
    }
    auto* partial = static_cast<char*>(launch.scratch);
    worker.parallel_for(parts_, 1, [&](int64_t part, int64_t) {
      reduce(x, partial + part * rows_ * result_, 0, rows_, part_begin(part), part_begin(part + 1));
    });
    worker.barrier();
    if (worker.index() == 0 && !worker.stopped()) join(x, partial, y);
  }

 private:
  int64_t part_begin(int64_t part) const { return part * columns_ / parts_; }

  // Rows [begin, end), each from column `first` to `last`, to y.
  void reduce(const char* x, char* y, int64_t begin, int64_t end, int64_t first, int64_t last) const {
    x += first * stride_ * element_;
    walk_.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
      for (int64_t i = 0; i < count; i += side_ ? kSide : 1) {
        const char* row = x + (offsets[0] + i * walk_.row_stride(0)) * element_;
        char* out = y + (position + i) * result_;
        if (side_) {
          functions_.side(row, stride_, last - first, out, std::min(kSide, count - i));
        } else {
          functions_.row(row, stride_, last - first, out);
        }
      }
    });
  }

  void join(const char* x, const char* partial, char* y) const {
    std::copy_n(partial, rows_ * result_, y);
    walk_.rows(0, rows_, [&](const auto& offsets, int64_t position, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const char* row = x + (offsets[0] + i * walk_.row_stride(0)) * element_;
        for (int64_t part = 1; part < parts_; ++part) {
          functions_.join(row, stride_, part_begin(part), partial + (part * rows_ + position + i) * result_,
                          y + (position + i) * result_);
        }
      }
    });
  }

  Functions functions_;
  StridedWalk walk_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t stride_ = 0;
  int64_t element_ = 0;  // bytes, as of a result
  int64_t result_ = 0;
  int64_t parts_ = 1;
  bool side_ = false;  // rows lie side by side, and their elements do not
};

template <class T>
const Functions* functions_of(std::string_view op) {
  struct Named {
    std::string_view op;
    Functions functions;
  };
  static constexpr Named kReductions[] = {
      {"sum", {reduce_row<T, Sum>, reduce_side<T, Sum>, join_results<T, Sum>}},
      {"prod", {reduce_row<T, Product>, reduce_side<T, Product>, join_results<T, Product>}},
      {"max", {reduce_row<T, Max>, reduce_side<T, Max>, join_results<T, Max>}},
      {"min", {reduce_row<T, Min>, reduce_side<T, Min>, join_results<T, Min>}},
      {"argmax", {arg_row<T, true>, arg_side<T, true>, join_places<T, true>}},
      {"argmin", {arg_row<T, false>, arg_side<T, false>, join_places<T, false>}},
  };
  for (const Named& reduction : kReductions) {
    if (reduction.op == op) return &reduction.functions;
  }
  return nullptr;
}

const Functions* functions_of(std::string_view op, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return functions_of<float>(op);
    case DType::f64:
      return functions_of<double>(op);
    case DType::i32:
      return functions_of<int32_t>(op);
    case DType::i64:
      return functions_of<int64_t>(op);
    default:
      return nullptr;
  }
}

KernelPointer make(const abi::KernelRequest& request, bool index) {
  if (!is_reduction(request, index)) return nullptr;
  const Functions* functions = functions_of(request.op, request.inputs[0].dtype);
  return functions == nullptr ? nullptr : std::make_unique<Reduce>(request, *functions);
}

}  // namespace

KernelPointer make_reduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, false); }

KernelPointer make_argreduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, true); }

}  // namespace gabbro::cpu::GABBRO_ISA
