// Matrix products [..., M, K] x [..., K, N] of bf16 on processors that add products of pairs to an f32 sum. Blocks of
// both factors are packed as pairs of neighbors along K, words of 32 bits, which go through the packs of f32 as if
// they were floats. Elements and sums below 2^-126 count as zero, as the processor has it. On others, products of
// halves are composed of casts and matmul.cc.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kDepth = 512;      // of a block: a panel of B is 32 KiB
constexpr int64_t kRowBlock = 192;   // rows of A that are packed at a time
constexpr int64_t kGroupRows = 384;  // of A, whose sums stay in the L2 cache
constexpr int64_t kStrip = 512;      // columns of B that are packed at a time, at most

using AddPairs = void (*)(const float* a, const float* b, int64_t steps, bool accumulate, float* sums, int64_t stride);

// Functions by the number of rows, less one.
constexpr auto kAddPairs = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<AddPairs, kMatrixRows>{add_pairs<kIndex + 1, kTileVectors, kMatrixRows>...};
}
(std::make_integer_sequence<int, kMatrixRows>{});

class MatmulPairs : public Kernel {
 public:
  MatmulPairs(const abi::KernelRequest& request, int workers)
      : a_(last_axes(request.inputs[0])), b_(last_axes(request.inputs[1])) {
    const abi::TensorView batches[] = {batch_axes(request.inputs[0], request.outputs[0]),
                                       batch_axes(request.inputs[1], request.outputs[0])};
    walk_ = StridedWalk(batches);
    // Few and large items of work, since packing is shared within an item alone, but enough for all workers.
    groups_ = std::max<int64_t>(1, pieces(a_.rows, kGroupRows));
    const int64_t panels = std::max<int64_t>(1, pieces(b_.columns, kPanel));
    const int64_t others = std::max<int64_t>(1, walk_.total()) * groups_;
    const int64_t wanted = workers == 1 ? 1 : pieces(4 * workers, others);
    strip_ = pieces(panels, std::clamp(wanted, pieces(panels * kPanel, kStrip), panels)) * kPanel;
    const int64_t steps = pieces(std::min(kDepth, a_.columns), 2), rows = std::min(kGroupRows, a_.rows);
    packed_b_ = packed_columns_floats(strip_, steps);
    packed_a_ = packed_rows_floats(std::min(kRowBlock, rows), steps);
    worker_floats_ = pieces(packed_b_ + packed_a_ + rows * strip_, kLanes) * kLanes;
    scratch_bytes = static_cast<size_t>(workers * worker_floats_) * sizeof(float);
    implementation = "matmul bf16 pairs";
    const auto products = static_cast<double>(walk_.total());
    flops = 2.0 * products * static_cast<double>(a_.rows) * static_cast<double>(a_.columns * b_.columns);
    bytes = 2.0 * products * static_cast<double>(a_.rows * a_.columns + b_.rows * b_.columns + a_.rows * b_.columns);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats_;
    const int64_t strips = pieces(b_.columns, strip_);
    worker.parallel_for(walk_.total() * groups_ * strips, 1, [&](int64_t item, int64_t) {
      const int64_t batch = item / (groups_ * strips);
      const int64_t row = item / strips % groups_ * kGroupRows, column = item % strips * strip_;
      walk_.rows(batch, batch + 1, [&](const auto& offsets, int64_t, int64_t) {
        const auto* a = static_cast<const BFloat*>(launch.inputs[0].data) + offsets[0] + row * a_.row_stride;
        const auto* b = static_cast<const BFloat*>(launch.inputs[1].data) + offsets[1] + column * b_.column_stride;
        auto* c = static_cast<BFloat*>(launch.outputs[0].data) + (batch * a_.rows + row) * b_.columns + column;
        multiply(a, b, std::min(kGroupRows, a_.rows - row), std::min(strip_, b_.columns - column), c, scratch);
      });
    });
  }

 private:
  // A group of rows times a strip of columns.
  void multiply(const BFloat* a, const BFloat* b, int64_t rows, int64_t columns, BFloat* c, float* scratch) const {
    float *packed_b = scratch, *packed_a = packed_b + packed_b_, *sums = packed_a + packed_a_;
    const int64_t stride = pieces(columns, kPanel) * kPanel;
    if (a_.columns == 0) std::fill_n(sums, rows * stride, 0.0f);
    for (int64_t k = 0; k < a_.columns; k += kDepth) {
      const int64_t depth = std::min(kDepth, a_.columns - k), steps = pieces(depth, 2);
      pack_pairs_down({depth, columns, b_.row_stride, b_.column_stride}, b + k * b_.row_stride, packed_b);
      for (int64_t r = 0; r < rows; r += kRowBlock) {
        const int64_t block = std::min(kRowBlock, rows - r);
        pack_pairs_along({block, depth, a_.row_stride, a_.column_stride}, a + r * a_.row_stride + k * a_.column_stride,
                         packed_a);
        for (int64_t j = 0; j < stride; j += kPanel) {
          for (int64_t i = 0; i < block; i += kMatrixRows) {
            const auto tile = static_cast<size_t>(std::min<int64_t>(kMatrixRows, block - i));
            kAddPairs[tile - 1](packed_a + i * steps, packed_b + j * steps, steps, k > 0, sums + (r + i) * stride + j,
                                stride);
          }
        }
      }
    }
    for (int64_t r = 0; r < rows; ++r) narrow(sums + r * stride, c + r * b_.columns, columns);
  }

  // Elements 2 · step and the next of `count`; where there is no next, zero is.
  static uint32_t pair_of(const BFloat* from, int64_t stride, int64_t step, int64_t count) {
    const BFloat* first = from + 2 * step * stride;
    return first->bits | (2 * step + 1 < count ? uint32_t{first[stride].bits} << 16 : 0);
  }

  static bool begins_with_a_word(const BFloat* from) { return reinterpret_cast<uintptr_t>(from) % alignof(float) == 0; }

  // Pairs along the rows of A: to [tiles of kMatrixRows rows][pairs][kMatrixRows].
  static void pack_pairs_along(const abi::MatrixView& a, const BFloat* from, float* to) {
    if (a.column_stride == 1 && a.columns % 2 == 0 && a.row_stride % 2 == 0 && begins_with_a_word(from)) {
      pack_rows({a.rows, a.columns / 2, a.row_stride / 2, 1}, reinterpret_cast<const float*>(from), to);
      return;
    }
    const int64_t steps = pieces(a.columns, 2);
    auto* words = reinterpret_cast<uint32_t*>(to);
    for (int64_t r = 0; r < a.rows; ++r) {
      uint32_t* row = words + r / kMatrixRows * kMatrixRows * steps + r % kMatrixRows;
      for (int64_t s = 0; s < steps; ++s) {
        row[s * kMatrixRows] = pair_of(from + r * a.row_stride, a.column_stride, s, a.columns);
      }
    }
  }

  // Pairs down the columns of B: to [panels of kPanel columns][pairs][kPanel], with zeros behind the last column.
  static void pack_pairs_down(const abi::MatrixView& b, const BFloat* from, float* to) {
    const int64_t steps = pieces(b.rows, 2);
    if (b.row_stride == 1 && b.rows % 2 == 0 && b.column_stride % 2 == 0 && begins_with_a_word(from)) {
      pack_columns({steps, b.columns, 1, b.column_stride / 2}, reinterpret_cast<const float*>(from), to);
      return;
    }
    auto* words = reinterpret_cast<uint32_t*>(to);
    for (int64_t j = 0; j < b.columns; j += kPanel) {
      const int64_t columns = std::min(kPanel, b.columns - j);
      for (int64_t s = 0; s < steps; ++s, words += kPanel) {
        const BFloat* row = from + 2 * s * b.row_stride + j * b.column_stride;
        if (columns == kPanel && b.column_stride == 1 && 2 * s + 1 < b.rows) {
          const BFloat* next = row + b.row_stride;
          for (int64_t i = 0; i < kPanel; ++i) words[i] = row[i].bits | uint32_t{next[i].bits} << 16;
        } else {
          std::fill_n(words, kPanel, 0u);
          for (int64_t i = 0; i < columns; ++i) {
            words[i] = pair_of(from + (j + i) * b.column_stride, b.row_stride, s, b.rows);
          }
        }
      }
    }
  }

  abi::MatrixView a_;
  abi::MatrixView b_;
  StridedWalk walk_;
  int64_t groups_ = 0, strip_ = 0;                           // of rows; columns of an item
  int64_t packed_a_ = 0, packed_b_ = 0, worker_floats_ = 0;  // of a worker's scratch
};

}  // namespace

KernelPointer make_matmul_pairs(const abi::KernelRequest& request, const MakeContext& context) {
  if (!is_matmul(request) || request.inputs[0].dtype != DType::bf16 || !has_pair_products()) return nullptr;
  return std::make_unique<MatmulPairs>(request, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
