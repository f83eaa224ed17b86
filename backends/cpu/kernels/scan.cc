// `cumsum` over the last axis, f32, f64, i32 and i64 (which wrap around). A worker a row.
#include "backends/common/primitives.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <class T>
class Scan : public Kernel {
 public:
  explicit Scan(const abi::TensorView& x) : columns_(x.shape[x.rank - 1]), rows_(elements(x) / columns_) {
    implementation = "cumsum";
    bytes = 2.0 * sizeof(T) * static_cast<double>(elements(x));
    flops = static_cast<double>(elements(x));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* y = static_cast<T*>(launch.outputs[0].data);
    worker.parallel_for(rows_, row_grain(columns_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T sum = 0;
        for (int64_t i = row * columns_; i < (row + 1) * columns_; ++i) y[i] = sum += x[i];
      }
    });
  }

 private:
  int64_t columns_;
  int64_t rows_;
};

}  // namespace

KernelPointer make_cumsum(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_scan(request)) return nullptr;
  const abi::TensorView& x = request.inputs[0];
  switch (x.dtype) {
    case DType::f32:
      return std::make_unique<Scan<float>>(x);
    case DType::f64:
      return std::make_unique<Scan<double>>(x);
    case DType::i32:
      return std::make_unique<Scan<uint32_t>>(x);
    case DType::i64:
      return std::make_unique<Scan<uint64_t>>(x);
    default:
      return nullptr;
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
