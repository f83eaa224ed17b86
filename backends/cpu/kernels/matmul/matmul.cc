// f32 matrix product [..., M, K] × [..., K, N], strided, with broadcast batch axes. Blocks of both factors are packed
// and stay in the caches; register tiles walk over them (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", 2008). Sums are f32, of blocks of K in order. Few rows have matmul_few.cc.
#include <algorithm>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kDepth = 256;      // of a block: a panel of B is 16 KiB with AVX2, and stays in the L1 cache
constexpr int64_t kRowBlock = 192;   // rows of A that are packed at a time, for the L2 cache
constexpr int64_t kStrip = 512;      // columns of B that are packed at a time, at most
constexpr int64_t kLeastPanels = 8;  // that make packing the rows of A worth it

class Matmul : public Kernel {
 public:
  Matmul(const abi::KernelRequest& request, int workers)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    plan_blocks(workers);
    implementation = "matmul f32";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 4.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats_;
    const int64_t strips = (b_.columns + strip_ - 1) / strip_;
    worker.parallel_for(walk_.total() * groups_ * strips, 1, [&](int64_t item, int64_t) {
      const int64_t batch = item / (groups_ * strips);
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        const float* a = static_cast<const float*>(launch.inputs[0].data) + offsets[0];
        const float* b = static_cast<const float*>(launch.inputs[1].data) + offsets[1];
        float* c = static_cast<float*>(launch.outputs[0].data) + batch * a_.rows * b_.columns;
        const int64_t column = item % strips * strip_;
        multiply(a, b, c, item / strips % groups_ * group_rows_, column, scratch);
      });
    });
  }

 private:
  // Sizes of a unit of work in rows and columns: few and large ones, since packing is shared within a unit alone, but
  // enough for all workers.
  void plan_blocks(int workers) {
    const auto pieces = [](int64_t whole, int64_t piece) { return std::max<int64_t>(1, (whole + piece - 1) / piece); };
    const int64_t panels = pieces(b_.columns, kPanel);
    const int64_t wanted = workers == 1 ? 1 : pieces(4 * workers, std::max<int64_t>(1, walk_.total()));
    const int64_t strips = std::clamp(pieces(wanted, pieces(a_.rows, kRowBlock)), pieces(b_.columns, kStrip), panels);
    strip_ = pieces(panels, strips) * kPanel;
    groups_ = std::min(pieces(a_.rows, kRowBlock), pieces(wanted, pieces(b_.columns, strip_)));
    group_rows_ = pieces(pieces(a_.rows, groups_), kMatrixRows) * kMatrixRows;
    groups_ = pieces(a_.rows, group_rows_);
    packs_rows_ = strip_ >= kLeastPanels * kPanel;
    const int64_t depth = std::min(kDepth, a_.columns), rows = std::min(kRowBlock, a_.rows);
    packed_a_ = packed_columns_floats(strip_, depth);
    worker_floats_ = (packed_a_ + (packs_rows_ ? packed_rows_floats(rows, depth) : 0) + kLanes) / kLanes * kLanes;
    scratch_bytes = static_cast<size_t>(workers * worker_floats_) * sizeof(float);
  }

  // A group of rows times a strip of columns.
  void multiply(const float* a, const float* b, float* c, int64_t row, int64_t column, float* scratch) const {
    const int64_t end = std::min(row + group_rows_, a_.rows), columns = std::min(strip_, b_.columns - column);
    for (int64_t r = row; a_.columns == 0 && r < end; ++r) std::fill_n(c + r * b_.columns + column, columns, 0.0f);
    for (int64_t k = 0; k < a_.columns; k += kDepth) {
      const int64_t depth = std::min(kDepth, a_.columns - k);
      pack_columns({depth, columns, b_.row_stride, b_.column_stride}, b + k * b_.row_stride + column * b_.column_stride,
                   scratch);
      for (int64_t r = row; r < end; r += kRowBlock) {
        const int64_t rows = std::min(kRowBlock, end - r);
        const float* from = a + r * a_.row_stride + k * a_.column_stride;
        float* out = c + r * b_.columns + column;
        if (packs_rows_) {
          pack_rows({rows, depth, a_.row_stride, a_.column_stride}, from, scratch + packed_a_);
          const PackedTile tile{.a = scratch + packed_a_, .out = out, .out_stride = b_.columns, .accumulate = k > 0};
          multiply_block(tile, kMatrixRows * depth, scratch, rows, columns, depth);
          continue;
        }
        const ProductTile tile{.a = from,
                               .row_stride = a_.row_stride,
                               .step_stride = a_.column_stride,
                               .out = out,
                               .out_stride = b_.columns,
                               .accumulate = k > 0};
        multiply_block(tile, kMatrixRows * a_.row_stride, scratch, rows, columns, depth);
      }
    }
  }

  // Rows that begin at `block`'s times packed columns. `tile_step`: elements from one tile of rows of A to the next.
  template <class Tile>
  void multiply_block(const Tile& block, int64_t tile_step, const float* packed, int64_t rows, int64_t columns,
                      int64_t depth) const {
    const int64_t panels = columns / kPanel * kPanel;
    const auto source_at = [&](int64_t j) { return PanelSource{packed + j * depth, depth}; };
    product_block(block, tile_step, rows, panels, depth, source_at);
    for (int64_t r = 0; r < rows && panels < columns; r += kMatrixRows) {
      Tile tile = block;
      tile.a += r / kMatrixRows * tile_step;
      tile.out += r * block.out_stride + panels;
      const auto count = static_cast<int>(std::min<int64_t>(kMatrixRows, rows - r));
      multiply_edge(tile, source_at(panels), count, columns - panels, depth);
    }
  }

  // As above, with fewer than kPanel columns left.
  template <class Tile>
  void multiply_edge(Tile tile, const PanelSource& panel, int rows, int64_t columns, int64_t depth) const {
    alignas(64) float sums[kMatrixRows * kPanel] = {};
    float* out = tile.out;
    const int64_t stride = tile.out_stride;
    for (int r = 0; tile.accumulate && r < rows; ++r) std::copy_n(out + r * stride, columns, sums + r * kPanel);
    tile.out = sums;
    tile.out_stride = kPanel;
    product_tile(rows, kTileVectors, tile, panel, 0, depth);
    for (int r = 0; r < rows; ++r) std::copy_n(sums + r * kPanel, columns, out + r * stride);
  }

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
  int64_t strip_ = 0;                    // columns of an item
  int64_t groups_ = 1, group_rows_ = 0;  // of rows
  bool packs_rows_ = false;
  int64_t packed_a_ = 0, worker_floats_ = 0;  // of a worker's scratch
};

}  // namespace

KernelPointer make_matmul(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_matmul(request) || request.inputs[0].dtype != DType::f32) return nullptr;
  return std::make_unique<Matmul>(request, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
