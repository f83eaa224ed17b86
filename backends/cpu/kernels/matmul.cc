// f32 matrix product [..., M, K] × [..., K, N], strided, with broadcast batch axes. Columns of B are gathered into a
// panel that stays in the cache; register tiles of A's rows walk over it. With few rows B is read once, along its rows,
// as fast as memory gives it. Sums run over K in order, in f32.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/product_tile.h"
#include "backends/cpu/kernels/strided.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kPanel = kTileVectors * kLanes;
constexpr int64_t kDepth = 256;     // rows of B in a panel: 32 KiB with AVX-512
constexpr int64_t kRowBlock = 192;  // rows of A per work item, so that gathering the panel is shared
constexpr int64_t kFewRows = 4;     // of A: up to here a panel is not read often enough to be worth gathering
constexpr int64_t kStrip = 512;     // columns of B per work item then: 2 KiB of each row, and sums that stay in L1

class Matmul : public Kernel {
 public:
  Matmul(const abi::KernelRequest& request, int workers)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    scratch_bytes = static_cast<size_t>(workers * kWorkerFloats) * sizeof(float);
    few_ = a_.rows <= kFewRows && b_.column_stride == 1 && b_.columns >= kLanes;
    implementation = few_ ? "matmul f32 few rows" : "matmul f32";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 4.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * kWorkerFloats;
    const int64_t width = few_ ? kStrip : kPanel;
    const int64_t panels = (b_.columns + width - 1) / width;
    const int64_t blocks = (a_.rows + kRowBlock - 1) / kRowBlock;
    worker.parallel_for(walk_.total() * blocks * panels, 1, [&](int64_t item, int64_t) {
      const int64_t batch = item / (blocks * panels);
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        const float* a = static_cast<const float*>(launch.inputs[0].data) + offsets[0];
        const float* b = static_cast<const float*>(launch.inputs[1].data) + offsets[1];
        float* c = static_cast<float*>(launch.outputs[0].data) + batch * a_.rows * b_.columns;
        const int64_t column = item % panels * width;
        if (few_) {
          multiply_few(a, b, c, column);
        } else {
          multiply(a, b, c, item / panels % blocks * kRowBlock, column, scratch);
        }
      });
    });
  }

 private:
  static constexpr int64_t kWorkerFloats = kDepth * kPanel + kRowBlock * kPanel;

  void multiply(const float* a, const float* b, float* c, int64_t row, int64_t column, float* scratch) const {
    float* panel = scratch;
    float* sums = scratch + kDepth * kPanel;
    const int64_t rows = std::min(kRowBlock, a_.rows - row);
    const int64_t columns = std::min(kPanel, b_.columns - column);
    std::fill_n(sums, rows * kPanel, 0.0f);
    for (int64_t k = 0; k < a_.columns; k += kDepth) {
      const int64_t depth = std::min(kDepth, a_.columns - k);
      load_panel(b + k * b_.row_stride + column * b_.column_stride, depth, columns, panel);
      for (int64_t r = 0; r < rows; r += kMatrixRows) {
        const ProductTile tile{a + (row + r) * a_.row_stride + k * a_.column_stride,
                               a_.row_stride,
                               a_.column_stride,
                               sums + r * kPanel,
                               kPanel,
                               true};
        product_tile(static_cast<int>(std::min<int64_t>(kMatrixRows, rows - r)), kTileVectors, tile,
                     FloatSource{panel, kPanel}, 0, depth);
      }
    }
    for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * kPanel, columns, c + (row + r) * b_.columns + column);
  }

  // All rows of A times a strip of B's columns. Four rows of B at a time, so that the sums are read and written less
  // often.
  void multiply_few(const float* a, const float* b, float* c, int64_t column) const {
    const int64_t columns = std::min(kStrip, b_.columns - column);
    for (int64_t r = 0; r < a_.rows; ++r) std::fill_n(c + r * b_.columns + column, columns, 0.0f);
    for (int64_t k = 0; k < a_.columns; k += 4) {
      const int depth = static_cast<int>(std::min<int64_t>(4, a_.columns - k));
      for (int64_t r = 0; r < a_.rows; ++r) {
        const float* factors = a + r * a_.row_stride + k * a_.column_stride;
        add_rows(factors, b + k * b_.row_stride + column, depth, columns, c + r * b_.columns + column);
      }
    }
  }

  // sums += factors · rows of B.
  void add_rows(const float* factors, const float* b, int depth, int64_t columns, float* sums) const {
    F32 factor[4];
    for (int i = 0; i < depth; ++i) factor[i] = splat(factors[i * a_.column_stride]);
    int64_t j = 0;
    if (depth == 4) {
      for (; j + kLanes <= columns; j += kLanes) {
        F32 sum = load(sums + j);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum = fma(factor[i], load(b + i * b_.row_stride + j), sum);
        store(sums + j, sum);
      }
    }
    for (; j < columns; j += kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, columns - j));
      F32 sum = load_first(sums + j, count);
      for (int i = 0; i < depth; ++i) sum = fma(factor[i], load_first(b + i * b_.row_stride + j, count), sum);
      store_first(sums + j, sum, count);
    }
  }

  void load_panel(const float* b, int64_t depth, int64_t columns, float* panel) const {
    if (b_.row_stride == 1 && b_.column_stride != 1) {  // a transposed matrix is read along its columns
      if (columns < kPanel) std::fill_n(panel, depth * kPanel, 0.0f);
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t k = 0; k < depth; ++k) panel[k * kPanel + j] = b[k + j * b_.column_stride];
      return;
    }
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = b + k * b_.row_stride;
      float* to = panel + k * kPanel;
      if (b_.column_stride == 1 && columns == kPanel) {
        std::copy_n(from, kPanel, to);
        continue;
      }
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j * b_.column_stride];
      std::fill(to + columns, to + kPanel, 0.0f);
    }
  }

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
  bool few_ = false;
};

}  // namespace

KernelPointer make_matmul(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_matmul(request) || request.inputs[0].dtype != DType::f32) return nullptr;
  return std::make_unique<Matmul>(request, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
