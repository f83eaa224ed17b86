// `flip`: a copy whose input is walked by negative strides along the reversed axes.
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <class T>
void copy_elements(const char* in, int64_t stride, char* out, int64_t count) {
  const T* x = reinterpret_cast<const T*>(in);
  T* y = reinterpret_cast<T*>(out);
  if (stride == 1) {
    std::copy_n(x, count, y);
  } else if (stride == -1) {  // a separate loop, which the compiler vectorizes
    for (int64_t i = 0; i < count; ++i) y[i] = x[-i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = x[i * stride];
  }
}

class Flip : public Kernel {
 public:
  Flip(const abi::KernelRequest& request, int64_t axes)
      : element_(static_cast<int64_t>(dtype_bytes(request.inputs[0].dtype, 1))) {
    abi::TensorView x = request.inputs[0];
    for (int axis = 0; axis < x.rank; ++axis) {
      if ((axes >> axis & 1) == 0) continue;
      first_ += (x.shape[axis] - 1) * x.strides[axis];
      x.strides[axis] = -x.strides[axis];
    }
    walk_ = StridedWalk({&x, 1});
    copy_ = element_ == 1   ? copy_elements<uint8_t>
            : element_ == 2 ? copy_elements<uint16_t>
            : element_ == 4 ? copy_elements<uint32_t>
                            : copy_elements<uint64_t>;
    implementation = "flip " + std::string(dtype_name(x.dtype));
    bytes = 2.0 * static_cast<double>(walk_.total() * element_);
    flops = static_cast<double>(walk_.total());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    worker.parallel_for(walk_.total(), 4 * kElementGrain, [&](int64_t begin, int64_t end) {
      walk_.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
        copy_(x + (first_ + offsets[0]) * element_, walk_.row_stride(0), y + position * element_, count);
      });
    });
  }

 private:
  int64_t element_;
  int64_t first_ = 0;  // the element of the input that comes first
  StridedWalk walk_;
  void (*copy_)(const char* in, int64_t stride, char* out, int64_t count);
};

}  // namespace

KernelPointer make_flip(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_elementwise_by_rows(request, 1) || request.inputs[0].dtype != request.outputs[0].dtype) return nullptr;
  return std::make_unique<Flip>(request, abi::integer_attribute(request, "axes", 0));
}

}  // namespace gabbro::cpu::GABBRO_ISA
