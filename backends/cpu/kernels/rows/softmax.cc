// Softmax over the last axis, in three passes: maximum, e^(x - maximum) with its sum, division; and its logarithm. A
// row of -inf, or with a NaN, gives NaN. f32, f16 and bf16; of halves the powers of a row stay f32, in scratch memory.
#include <cmath>
#include <limits>
#include <string_view>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <class T>
class Softmax : public Kernel {
 public:
  Softmax(const abi::KernelRequest& request, const abi::TensorView& x, int workers)
      : columns_(x.shape[x.rank - 1]),
        rows_(columns_ == 0 ? 0 : elements(x) / columns_),
        logarithm_(std::string_view(request.op) == "log_softmax") {
    if (kHalf<T> && !logarithm_) scratch_bytes = static_cast<size_t>(workers * columns_) * sizeof(float);
    implementation = std::string(request.op) + " " + std::string(dtype_name(x.dtype));
    bytes = 2.0 * sizeof(T) * static_cast<double>(rows_ * columns_);
    flops = 5.0 * static_cast<double>(rows_ * columns_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* y = static_cast<T*>(launch.outputs[0].data);
    worker.parallel_for(rows_, row_grain(columns_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* out = y + row * columns_;
        if constexpr (kHalf<T>) {
          softmax_row(x + row * columns_, out, static_cast<float*>(launch.scratch) + worker.index() * columns_);
        } else {
          softmax_row(x + row * columns_, out, out);
        }
      }
    });
  }

 private:
  void softmax_row(const T* x, T* y, float* exponentials) const {
    const float lowest = -std::numeric_limits<float>::infinity();
    F32 highest[4] = {splat(lowest), splat(lowest), splat(lowest), splat(lowest)};
    for_vectors(columns_, [&](int64_t i, int count, int k) {
      highest[k] = max(only_first(load_some(x + i, count), count, lowest), highest[k]);
    });
    const F32 maximum = splat(reduce_max(max(max(highest[0], highest[1]), max(highest[2], highest[3]))));
    F32 sums = zero_f32();
    for_sum_blocks(columns_, [&](int64_t begin, int64_t columns) {
      F32 block[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
      for_vectors(columns, [&](int64_t i, int count, int k) {
        const F32 v = exp_of_nonpositive(load_some(x + begin + i, count) - maximum);
        if (!logarithm_) store_some(exponentials + begin + i, v, count);
        block[k] += only_first(v, count, 0);
      });
      sums += (block[0] + block[1]) + (block[2] + block[3]);
    });
    if (logarithm_) {
      const F32 log_sum = splat(std::log(reduce_sum(sums)));
      for_vectors(columns_, [&](int64_t i, int count, int) {
        store_some(y + i, (load_some(x + i, count) - maximum) - log_sum, count);
      });
      return;
    }
    const F32 inverse = splat(1 / reduce_sum(sums));
    for_vectors(columns_, [&](int64_t i, int count, int) {
      store_some(y + i, load_some(exponentials + i, count) * inverse, count);
    });
  }

  int64_t columns_;
  int64_t rows_;
  bool logarithm_;
};

}  // namespace

KernelPointer make_softmax(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 1, 1)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  if (!is_plain(x, x.dtype) || x.rank < 1 || !is_contiguous(x)) return nullptr;
  if (!same_shape(x, request.outputs[0]) || !is_plain(request.outputs[0], x.dtype)) return nullptr;
  return with_element(
      x.dtype, [&]<class T>() -> KernelPointer { return std::make_unique<Softmax<T>>(request, x, context.workers); });
}

}  // namespace gabbro::cpu::GABBRO_ISA
