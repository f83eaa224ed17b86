// `matmul` of f64, i32 and i64 (which wrap around): as many columns of a row as sums fit in the registers' reach, one
// element of the left factor after the other.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// T: double, or an unsigned number.
template <class T>
class TypedMatmul : public Kernel {
 public:
  explicit TypedMatmul(const abi::KernelRequest& request)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batch[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                     batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batch);
    implementation = "matmul " + std::string(dtype_name(request.inputs[0].dtype));
    const auto products = static_cast<double>(walk_.total());
    bytes =
        products * sizeof(T) * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
    flops = 2 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* a = static_cast<const T*>(launch.inputs[0].data);
    const auto* b = static_cast<const T*>(launch.inputs[1].data);
    auto* c = static_cast<T*>(launch.outputs[0].data);
    const int64_t work = std::max<int64_t>(1, a_.columns * b_.columns), grain = std::max<int64_t>(1, 65536 / work);
    worker.parallel_for(walk_.total() * a_.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        walk_.rows(at / a_.rows, at / a_.rows + 1, [&](const auto& offsets, int64_t, int64_t) {
          row(a + offsets[0] + at % a_.rows * a_.row_stride, b + offsets[1], c + at * b_.columns);
        });
      }
    });
  }

 private:
  static constexpr int64_t kTogether = 256;

  void row(const T* a, const T* b, T* c) const {
    for (int64_t begin = 0; begin < b_.columns; begin += kTogether) {
      const int64_t count = std::min(kTogether, b_.columns - begin);
      T sums[kTogether] = {};
      for (int64_t k = 0; k < a_.columns; ++k) {
        const T factor = a[k * a_.column_stride];
        const T* other = b + k * b_.row_stride + begin * b_.column_stride;
        if (b_.column_stride == 1) {
          for (int64_t j = 0; j < count; ++j) sums[j] += factor * other[j];
        } else {
          for (int64_t j = 0; j < count; ++j) sums[j] += factor * other[j * b_.column_stride];
        }
      }
      std::copy_n(sums, count, c + begin);
    }
  }

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
};

}  // namespace

std::unique_ptr<Kernel> make_typed_matmul(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_matmul(request)) return nullptr;
  switch (request.inputs[0].dtype) {
    case DType::f64:
      return std::make_unique<TypedMatmul<double>>(request);
    case DType::i32:
      return std::make_unique<TypedMatmul<uint32_t>>(request);
    case DType::i64:
      return std::make_unique<TypedMatmul<uint64_t>>(request);
    default:
      return nullptr;
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
