// Matrix products [..., M, K] x [..., K, N] of few rows, of f32, f16 and bf16: B is read once, along its rows, as fast
// as memory gives it, and halves are converted in registers. Sums are f32, of blocks of K in order.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/matmul/product_tile.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kFewRows = 4;   // up to here a panel of B is not read often enough to be worth gathering
constexpr int64_t kStrip = 512;   // columns: 2 KiB of each row of f32, and sums that stay in the L1 cache
constexpr int kRowsTogether = 4;  // of B, so that the sums are read and written less often
static_assert(kSumSteps % kRowsTogether == 0);

template <class T>
class MatmulFew : public Kernel {
 public:
  explicit MatmulFew(const abi::KernelRequest& request)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    implementation = "matmul " + std::string(dtype_name(request.inputs[0].dtype)) + " few rows";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes =
        sizeof(T) * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const int64_t strips = pieces(b_.columns, kStrip);
    worker.parallel_for(walk_.total() * strips, 1, [&](int64_t item, int64_t) {
      const int64_t batch = item / strips, column = item % strips * kStrip;
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        multiply(static_cast<const T*>(launch.inputs[0].data) + offsets[0],
                 static_cast<const T*>(launch.inputs[1].data) + offsets[1] + column,
                 std::min(kStrip, b_.columns - column),
                 static_cast<T*>(launch.outputs[0].data) + batch * a_.rows * b_.columns + column);
      });
    });
  }

 private:
  // All rows of A times a strip of B's columns.
  void multiply(const T* a, const T* b, int64_t columns, T* c) const {
    alignas(64) float sums[kFewRows * kStrip];   // of a block of kSumSteps
    alignas(64) float total[kFewRows * kStrip];  // of the blocks before
    std::fill_n(sums, a_.rows * kStrip, 0.0f);
    for (int64_t k = 0; k < a_.columns; k += kRowsTogether) {
      if (k > 0 && k % kSumSteps == 0) close_block(k > kSumSteps, sums, total);
      const int depth = static_cast<int>(std::min<int64_t>(kRowsTogether, a_.columns - k));
      const Strip strip = {
          .data = b + k * b_.row_stride, .row_stride = b_.row_stride, .rows = depth, .columns = columns};
      kAddRows[static_cast<size_t>(a_.rows - 1)](a_, a + k * a_.column_stride, strip, sums);
    }
    if (a_.columns > kSumSteps) close_block(true, total, sums);
    for (int64_t r = 0; r < a_.rows; ++r) {
      for (int64_t j = 0; j < columns; j += kLanes) {
        store_some(c + r * b_.columns + j, load(sums + r * kStrip + j),
                   static_cast<int>(std::min<int64_t>(kLanes, columns - j)));
      }
    }
  }

  // Adds the sums `from` to `to`, or copies them where that is the first block, and clears them.
  void close_block(bool accumulate, float* from, float* to) const {
    for (int64_t i = 0; i < a_.rows * kStrip; ++i) to[i] = accumulate ? to[i] + from[i] : from[i];
    std::fill_n(from, a_.rows * kStrip, 0.0f);
  }

  // Neighboring columns of up to kRowsTogether rows of B.
  struct Strip {
    const T* data;
    int64_t row_stride;
    int rows;
    int64_t columns;
  };

  // sums += A's columns at `factors` · the rows of B, whose elements are converted once for all rows of A.
  template <int kRows>
  static void add_rows(const abi::MatrixView& a, const T* factors, const Strip& strip, float* sums) {
    const auto [b, row_stride, depth, columns] = strip;
    F32 factor[kRows][kRowsTogether];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < depth; ++i)
        factor[r][i] = splat(static_cast<float>(factors[r * a.row_stride + i * a.column_stride]));
    }
    int64_t j = 0;
    if (depth == kRowsTogether) {
      for (; j + kLanes <= columns; j += kLanes) {
        F32 x[kRowsTogether];
#pragma GCC unroll 4
        for (int i = 0; i < kRowsTogether; ++i) x[i] = load_as_f32(b + i * row_stride + j);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          F32 sum = load(sums + r * kStrip + j);
#pragma GCC unroll 4
          for (int i = 0; i < kRowsTogether; ++i) sum = fma(factor[r][i], x[i], sum);
          store(sums + r * kStrip + j, sum);
        }
      }
    }
    for (; j < columns; j += kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, columns - j));
      for (int r = 0; r < kRows; ++r) {
        F32 sum = load(sums + r * kStrip + j);
        for (int i = 0; i < depth; ++i) sum = fma(factor[r][i], load_some(b + i * row_stride + j, count), sum);
        store(sums + r * kStrip + j, sum);
      }
    }
  }
  using AddRows = void (*)(const abi::MatrixView&, const T*, const Strip&, float*);
  static constexpr AddRows kAddRows[kFewRows] = {add_rows<1>, add_rows<2>, add_rows<3>, add_rows<4>};

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
};

}  // namespace

KernelPointer make_matmul_few(const abi::KernelRequest& request, const MakeContext&) {
  if (!is_matmul(request)) return nullptr;
  const abi::MatrixView a = last_axes(request.inputs[0]), b = last_axes(request.inputs[1]);
  if (a.rows < 1 || a.rows > kFewRows || b.column_stride != 1 || b.columns < kLanes) return nullptr;
  return with_element(request.inputs[0].dtype,
                      [&]<class T>() -> KernelPointer { return std::make_unique<MatmulFew<T>>(request); });
}

}  // namespace gabbro::cpu::GABBRO_ISA
