// f32 matrix product [..., M, K] × [..., K, N], strided, with broadcast batch axes. Columns of B are gathered into a
// panel that stays in the cache; register tiles of A's rows walk over it. Sums run over K in order, in f32.
#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/product_tile.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/common/request.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kPanel = kTileVectors * kLanes;
constexpr int64_t kDepth = 256;     // rows of B in a panel: 32 KiB with AVX-512
constexpr int64_t kRowBlock = 192;  // rows of A per work item, so that gathering the panel is shared

struct Matrix {
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;
};

Matrix matrix(const abi::TensorView& view) {
  const int r = view.rank;
  return {view.shape[r - 2], view.shape[r - 1], view.strides[r - 2], view.strides[r - 1]};
}

// The batch axes alone, broadcast to those of `like`.
abi::TensorView batch_axes(const abi::TensorView& view, const abi::TensorView& like) {
  abi::TensorView batch = like;
  batch.rank = like.rank - 2;
  for (int i = 0; i < batch.rank; ++i) {
    const int axis = i + view.rank - like.rank;
    batch.strides[i] = axis < 0 || view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  return batch;
}

class Matmul : public Kernel {
 public:
  Matmul(const abi::KernelRequest& request, int workers)
      : a_(matrix(request.inputs[0])), b_(matrix(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    scratch_bytes = static_cast<size_t>(workers * kWorkerFloats) * sizeof(float);
    implementation = "matmul f32";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 4.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * kWorkerFloats;
    const int64_t panels = (b_.columns + kPanel - 1) / kPanel;
    const int64_t blocks = (a_.rows + kRowBlock - 1) / kRowBlock;
    worker.parallel_for(walk_.total() * blocks * panels, 1, [&](int64_t item, int64_t) {
      const int64_t batch = item / (blocks * panels);
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        const float* a = static_cast<const float*>(launch.inputs[0].data) + offsets[0];
        const float* b = static_cast<const float*>(launch.inputs[1].data) + offsets[1];
        float* c = static_cast<float*>(launch.outputs[0].data) + batch * a_.rows * b_.columns;
        multiply(a, b, c, item / panels % blocks * kRowBlock, item % panels * kPanel, scratch);
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
      for (int64_t r = 0; r < rows; r += kTileRows) {
        const ProductTile tile{a + (row + r) * a_.row_stride + k * a_.column_stride,
                               a_.row_stride,
                               a_.column_stride,
                               sums + r * kPanel,
                               kPanel,
                               true};
        product_tile(static_cast<int>(std::min<int64_t>(kTileRows, rows - r)), kTileVectors, tile,
                     FloatSource{panel, kPanel}, 0, depth);
      }
    }
    for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * kPanel, columns, c + (row + r) * b_.columns + column);
  }

  void load_panel(const float* b, int64_t depth, int64_t columns, float* panel) const {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = b + k * b_.row_stride;
      float* to = panel + k * kPanel;
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j * b_.column_stride];
      std::fill(to + columns, to + kPanel, 0.0f);
    }
  }

  Matrix a_;
  Matrix b_;
  StridedWalk walk_;
};

}  // namespace

KernelPointer make_matmul(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 2, 1)) return nullptr;
  const abi::TensorView& a = request.inputs[0];
  const abi::TensorView& b = request.inputs[1];
  const abi::TensorView& c = request.outputs[0];
  if (!is_plain(a, DType::f32) || !is_plain(b, DType::f32) || !is_plain(c, DType::f32)) return nullptr;
  if (a.rank < 2 || b.rank < 2 || c.rank != std::max(a.rank, b.rank) || !is_contiguous(c)) return nullptr;
  const Matrix ma = matrix(a);
  const Matrix mb = matrix(b);
  const Matrix mc = matrix(c);
  if (ma.columns != mb.rows || mc.rows != ma.rows || mc.columns != mb.columns) return nullptr;
  for (const abi::TensorView* view : {&a, &b}) {
    for (int i = 0; i + 2 < view->rank; ++i) {
      const int64_t extent = c.shape[i + c.rank - view->rank];
      if (view->shape[i] != extent && view->shape[i] != 1) return nullptr;
    }
  }
  return std::make_unique<Matmul>(request, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
