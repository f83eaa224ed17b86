// Reductions over the last axis, f32 and i32: x [..., C] to [..., 1]. Sums wrap around in i32. A NaN makes sum, prod,
// max, min NaN and is what argmax and argmin find first; of equal elements they find the first. Over nothing: sum 0,
// prod 1, max and min the lowest and the highest number, argmax and argmin 0.
#include <limits>
#include <string_view>

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

struct Sum {
  template <class T>
  static constexpr T start() {
    return 0;
  }
  static float join(float a, float b) { return a + b; }
  static int32_t join(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Product {
  template <class T>
  static constexpr T start() {
    return 1;
  }
  static float join(float a, float b) { return a * b; }
  static int32_t join(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
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
};

// Sixteen running results, so that the compiler can use vectors and rounding errors of sums grow sixteen times slower.
template <class T, class F>
void reduce_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, F::template start<T>());
  int64_t i = 0;
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

template <class T, bool kMax>
void arg_row(const void* row, int64_t stride, int64_t count, void* out) {
  const T* x = static_cast<const T*>(row);
  int64_t best = 0;
  for (int64_t i = 1; i < count && x[best * stride] == x[best * stride]; ++i) {
    const T a = x[i * stride];
    const T b = x[best * stride];
    if ((kMax ? a > b : a < b) || a != a) best = i;
  }
  *static_cast<int32_t*>(out) = static_cast<int32_t>(best);
}

using ReduceFunction = void (*)(const void* row, int64_t stride, int64_t count, void* out);

class Reduce : public Kernel {
 public:
  Reduce(const abi::KernelRequest& request, ReduceFunction function) : function_(function) {
    abi::TensorView x = request.inputs[0];
    columns_ = x.shape[x.rank - 1];
    stride_ = x.strides[x.rank - 1];
    x.rank -= 1;
    walk_ = StridedWalk({&x, 1});
    implementation = std::string(request.op) + " " + std::string(dtype_name(x.dtype));
    bytes = 4.0 * static_cast<double>(walk_.total() * (columns_ + 1));
    flops = static_cast<double>(walk_.total() * columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    worker.parallel_for(walk_.total(), row_grain(columns_), [&](int64_t begin, int64_t end) {
      walk_.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t offset = offsets[0] + i * walk_.row_stride(0);
          function_(x + offset * kElementBytes, stride_, columns_, y + (position + i) * kElementBytes);
        }
      });
    });
  }

 private:
  static constexpr int64_t kElementBytes = 4;  // of f32 and i32, inputs and results
  ReduceFunction function_;
  StridedWalk walk_;
  int64_t columns_ = 0;
  int64_t stride_ = 0;
};

struct Reduction {
  const char* op;
  ReduceFunction f32;
  ReduceFunction i32;
};

constexpr Reduction kReductions[] = {
    {"sum", reduce_row<float, Sum>, reduce_row<int32_t, Sum>},
    {"prod", reduce_row<float, Product>, reduce_row<int32_t, Product>},
    {"max", reduce_row<float, Max>, reduce_row<int32_t, Max>},
    {"min", reduce_row<float, Min>, reduce_row<int32_t, Min>},
    {"argmax", arg_row<float, true>, arg_row<int32_t, true>},
    {"argmin", arg_row<float, false>, arg_row<int32_t, false>},
};

KernelPointer make(const abi::KernelRequest& request, bool index) {
  if (!is_reduction(request, index)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  for (const Reduction& reduction : kReductions) {
    if (std::string_view(reduction.op) != request.op) continue;
    return std::make_unique<Reduce>(request, x.dtype == DType::f32 ? reduction.f32 : reduction.i32);
  }
  return nullptr;
}

}  // namespace

KernelPointer make_reduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, false); }

KernelPointer make_argreduce(const abi::KernelRequest& request, const MakeContext&) { return make(request, true); }

}  // namespace gabbro::cpu::GABBRO_ISA
