// f32 matrix products [..., M, K] × [..., K, N] of few columns whose factors both have neighbors along K: a dot
// product for each element of the result, in vectors along K. With few and long ones K is divided among the workers.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kMostColumns = 4;      // more fill enough of a panel of matmul.cc
constexpr int64_t kPartDepth = 1 << 14;  // elements of a part, at least, and how many parts there are
constexpr int64_t kMostParts = 64;
constexpr int64_t kItemElements = 1 << 14;  // of A, that a worker takes at a time

// Four running sums: each waits for the one before. Elements beyond whole vectors come last.
float dot(const float* a, const float* b, int64_t count) {
  F32 sums[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[j] = fma(load(a + i + j * kLanes), load(b + i + j * kLanes), sums[j]);
  }
  for (; i < count; i += kLanes) {
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, count - i));
    sums[0] = fma(load_some(a + i, lanes), load_some(b + i, lanes), sums[0]);
  }
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

class MatmulDot : public Kernel {
 public:
  explicit MatmulDot(const abi::KernelRequest& request)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    rows_ = walk_.total() * a_.rows;
    const int64_t results = rows_ * b_.columns;
    if (results < 2 * kMostParts) parts_ = std::clamp<int64_t>(a_.columns / kPartDepth, 1, kMostParts);
    if (parts_ > 1) scratch_bytes = static_cast<size_t>(parts_ * results) * sizeof(float);
    implementation = "matmul f32 dot";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 4.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* c = static_cast<float*>(launch.outputs[0].data);
    if (parts_ == 1) {
      const int64_t grain = std::max<int64_t>(1, kItemElements / std::max<int64_t>(1, a_.columns));
      worker.parallel_for(rows_, grain,
                          [&](int64_t begin, int64_t end) { multiply(launch, begin, end, 0, a_.columns, c); });
      return;
    }
    auto* partial = static_cast<float*>(launch.scratch);
    const int64_t results = rows_ * b_.columns;
    worker.parallel_for(parts_, 1, [&](int64_t part, int64_t) {
      multiply(launch, 0, rows_, part * a_.columns / parts_, (part + 1) * a_.columns / parts_,
               partial + part * results);
    });
    worker.barrier();
    if (worker.index() != 0 || worker.stopped()) return;
    for (int64_t i = 0; i < results; ++i) {
      float sum = 0;
      for (int64_t part = 0; part < parts_; ++part) sum += partial[part * results + i];
      c[i] = sum;
    }
  }

 private:
  // Rows of all batches, from depth `first` to `last`.
  void multiply(const abi::Launch& launch, int64_t begin, int64_t end, int64_t first, int64_t last, float* c) const {
    for (int64_t row = begin; row < end;) {
      const int64_t batch = row / a_.rows, batch_end = std::min(end, (batch + 1) * a_.rows);
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        const float* a = static_cast<const float*>(launch.inputs[0].data) + offsets[0] + first;
        const float* b = static_cast<const float*>(launch.inputs[1].data) + offsets[1] + first;
        for (; row < batch_end; ++row) {
          for (int64_t j = 0; j < b_.columns; ++j)
            c[row * b_.columns + j] = dot(a + row % a_.rows * a_.row_stride, b + j * b_.column_stride, last - first);
        }
      });
    }
  }

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
  int64_t rows_ = 0;
  int64_t parts_ = 1;  // of K
};

}  // namespace

KernelPointer make_matmul_dot(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_matmul(request) || request.inputs[0].dtype != DType::f32) return nullptr;
  const abi::MatrixView a = last_axes(request.inputs[0]), b = last_axes(request.inputs[1]);
  if (b.columns < 1 || b.columns > kMostColumns || a.rows < 1) return nullptr;
  if (a.columns > 1 && (a.column_stride != 1 || b.row_stride != 1)) return nullptr;
  return std::make_unique<MatmulDot>(request);
}

}  // namespace gabbro::cpu::GABBRO_ISA
