// Common part of the kernels of `recurrent` and `recurrent_gradient`: how a layer is divided among the workers, the
// packed weights, and a step's matrix product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/common/request.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/kernels/elementwise/elements.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"

namespace gabbro::cpu::GABBRO_ISA {

enum class RecurrentCell : int64_t { kTanh, kRelu, kLstm, kGru };  // the attribute `cell`

constexpr int64_t recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}

// A rectangle of a state [B, H]: rows, and blocks of kLanes hidden units.
struct StateTile {
  int64_t row, row_end;
  int64_t block, block_end;
};

struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::kTanh;
  bool reversed = false;
  int64_t steps = 0, batch = 0, hidden = 0;

  int64_t gates() const { return recurrent_gates(cell); }
  int64_t blocks() const { return (hidden + kLanes - 1) / kLanes; }
  // Step s leads from state s to state s + 1.
  int64_t step_row(int64_t s) const { return reversed ? steps - 1 - s : s; }
  int64_t state_row(int64_t s) const { return reversed ? steps - s : s; }
};

inline constexpr int64_t kTileBatch = 24;  // rows of a tile, whose results stay in the L1 cache

// Rows are independent of each other from the first step to the last, so workers with separate rows never wait.
// With few rows, or weights too large for a core's cache, each step's hidden units are divided, and a barrier follows.
class RecurrentSchedule {
 public:
  RecurrentSchedule() = default;
  RecurrentSchedule(const RecurrentShape& shape, int workers, int64_t blocks_together)
      : steps_(shape.steps), batch_(shape.batch), blocks_(shape.blocks()), together_(blocks_together) {
    constexpr int64_t kSmallStep = 100'000;      // multiplications: about as long as a barrier
    constexpr int64_t kCachedWeights = 1 << 18;  // elements: 1 MiB, the L2 cache of a core
    constexpr int64_t kEnoughRows = 4;           // per worker; a weight is loaded once for each
    const int64_t weights = shape.gates() * shape.hidden * shape.hidden;
    by_rows_ =
        workers == 1 || batch_ * weights < kSmallStep || (batch_ >= kEnoughRows * workers && weights <= kCachedWeights);
    const bool shared = batch_ * weights >= kSmallStep;
    rows_ = shared ? std::min((batch_ + workers - 1) / workers, kTileBatch) : std::min(batch_, kTileBatch);
  }

  // body(s, tile) for all steps, in order for each row; `last` of them, counted from 0. Results of a step are visible
  // to the next one.
  template <class Body>
  void run(int64_t count, Worker& worker, const Body& body) const {
    const auto tiles = [&](int64_t step, int64_t row, int64_t row_end, int64_t block, int64_t block_end) {
      for (; row < row_end; row += kTileBatch) {
        for (int64_t b = block; b < block_end; b += together_)
          body(step, StateTile{row, std::min(row + kTileBatch, row_end), b, std::min(b + together_, block_end)});
      }
    };
    if (by_rows_) {
      worker.parallel_for(batch_, rows_, [&](int64_t begin, int64_t end) {
        for (int64_t step = 0; step < count && !worker.canceled(); ++step) tiles(step, begin, end, 0, blocks_);
      });
      return;
    }
    for (int64_t step = 0; step < count; ++step) {
      worker.parallel_for(blocks_, together_, [&](int64_t begin, int64_t end) { tiles(step, 0, batch_, begin, end); });
      worker.barrier();
      if (worker.stopped()) return;
    }
  }

 private:
  int64_t steps_ = 0, batch_ = 0, blocks_ = 0, together_ = 1, rows_ = 1;
  bool by_rows_ = true;
};

// Rows of states or gates, and columns of packed weights.
struct RecurrentFactors {
  const float* a;  // [rows, depth]
  int64_t rows, depth;
  const float* packed;     // weights of `depth` rows
  int64_t first, vectors;  // first vector of columns, a whole number of panels, and their number
};

// The product, to out [rows, vectors · 16].
inline void recurrent_product(const RecurrentFactors& f, float* out) {
  const ProductTile tile{.a = f.a,
                         .row_stride = f.depth,
                         .step_stride = 1,
                         .out = out,
                         .out_stride = f.vectors * kLanes,
                         .accumulate = false};
  product_block(tile, kMatrixRows * f.depth, f.rows, f.vectors * kLanes, f.depth, [&](int64_t j) {
    return PanelSource{f.packed + (f.first / kTileVectors * kPanel + j) * f.depth, f.depth};
  });
}

// Offset of vector v of row `depth_row` in packed weights of `depth` rows.
inline int64_t packed_offset(int64_t v, int64_t depth_row, int64_t depth) {
  return v / kTileVectors * kPanel * depth + depth_row * kPanel + v % kTileVectors * kLanes;
}

// The shape that a request's attributes and its states [T + 1, B, H] tell; false where they make no sense.
bool read_recurrent(const abi::KernelRequest& request, const abi::TensorView& states, RecurrentShape& shape);

}  // namespace gabbro::cpu::GABBRO_ISA
