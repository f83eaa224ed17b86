// Rows of attention over f16 or bf16 tensors: kernels read the rows of heads, and store the rows of a block.
#pragma once

#include "kernels/attention/attention_dense.h"
#include "kernels/attention/attention_rows.h"

namespace gabbro::gpu::GABBRO_GPU {

// Rows of a head in 16-byte vectors of eight elements; zeros outside.
class HeadRows {
 public:
  GPU_INLINE HeadRows(const StridedHeads& of, i32 batch, i32 head, i32 rows, const DenseAttentionArgs& a)
      : data_(static_cast<const Half*>(of.data) + batch * of.batch + head * of.head),
        step_(of.row),
        count_(rows),
        dim_(a.dim),
        loose_(a.loose != 0) {}

  GPU_INLINE Vec16 load(i32 row, i32 d) const {
    if (!loose_) return has(row, d) ? load_vec16(at(row, d)) : Vec16{};
    Vec16 vec = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (has(row, d + i)) vec.word[i / 2] |= static_cast<u32>(at(row, d)[i].bits) << (i % 2 * 16);
    }
    return vec;
  }
  // Vector `i` of aligned rows, whose D is a multiple of 8.
  template <class Copy>
  GPU_INLINE void begin_aligned(Copy& copies, int i, Half* to, i32 row, i32 d) const {
    copies.begin(i, to, has(row, d) ? at(row, d) : data_, has(row, d));
  }
  // Vector `i` of those that `copies` brings.
  template <class Copy>
  GPU_INLINE void begin(Copy& copies, int i, Half* to, i32 row, i32 d) const {
    if (!loose_) {
      begin_aligned(copies, i, to, row, d);
    } else if constexpr (kCopiesPassRegisters) {
      store_vec16(to, load(row, d));
    } else {
      copies.begin(i, to, load(row, d));
    }
  }

 private:
  GPU_INLINE bool has(i32 row, i32 d) const { return row < count_ && d < dim_; }
  GPU_INLINE const Half* at(i32 row, i32 d) const { return data_ + row * step_ + d; }

  const Half* data_;
  i64 step_;
  i32 count_, dim_;
  bool loose_;
};

// Scores of keys that a row does not see become the smallest of all.
template <class L>
GPU_FUNCTION inline void hide(const DenseAttentionArgs& a, i32 first, i32 base, typename L::Scores& scores) {
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
#pragma unroll
    for (int k = 0; k < L::kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 key = base + k * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        const i32 last = a.causal != 0 ? first + QueryRows<L>::row(r, i) : key;
        if (key >= a.keys || key > last) scores[r][k].value[i] = 2 * kNoMaximum;
      }
    }
  }
}

// Calls store(row, d, i, sums) for the sums i of the wave's rows: the row of the block and the first element of D that
// they stand for, `together` of them side by side.
template <int together, class L, class Store>
GPU_FUNCTION inline void for_outputs(const DenseAttentionArgs& a, i32 count, const QueryRows<L>& rows,
                                     const Store& store) {
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; i += together) {
      const i32 row = rows.row(r, i);
      if (row >= count) continue;
#pragma unroll
      for (int tile = 0; tile < L::kDimTiles; ++tile) {
        const i32 d = tile * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        if (d < a.dim) store(row, d, rows.output[r][tile].value + i);
      }
    }
  }
}

// Positions of a block's rows in y.
struct ResultRows {
  i64 first;
  i32 step, count;

  // From a query of a head on.
  GPU_INLINE ResultRows(const DenseAttentionArgs& a, i32 batch, i32 head, i32 query)
      : first(a.rows_first != 0 ? (static_cast<i64>(batch) * a.queries + query) * a.heads + head
                                : (static_cast<i64>(batch) * a.heads + head) * a.queries + query),
        step(a.rows_first != 0 ? a.heads : 1),
        count(a.queries - query) {}
};

// Results of the wave's rows: outputs, or the partial ones of this split. `factor` times a score is a logarithm to the
// base 2.
template <class T, class L>
GPU_FUNCTION inline void store_rows(const DenseAttentionArgs& a, const ResultRows& to, float factor,
                                    QueryRows<L>& rows) {
  const i32 count = to.count;
#pragma unroll
  for (int r = 0; r < L::kRowTiles; ++r) {
    float inverse[kRowSlots];
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      const float sum = rows.sum[r][slot] = row_sum(rows.sum[r][slot]);
      inverse[slot] = a.splits > 1 ? 1 : sum != 0 ? 1 / sum : 0;
    }
#pragma unroll
    for (Accumulator& output : rows.output[r]) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) output.value[i] *= inverse[row_slot(i)];
    }
  }
  if (a.splits > 1) {
    const auto partial = [&](i32 row) {
      return a.partials +
             ((to.first + static_cast<i64>(row) * to.step) * a.splits + block_index().z) * partial_floats(a.dim);
    };
    for_outputs<1>(a, count, rows, [&](i32 row, i32 d, const float* sum) { partial(row)[d] = *sum; });
#pragma unroll
    for (int r = 0; r < L::kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < Accumulator::kCount; ++i) {
        const i32 row = rows.row(r, i);
        if (row >= count) continue;
        partial(row)[a.dim] = rows.maximum[r][row_slot(i)] * factor * kLn2;  // by every lane that has the row
        partial(row)[a.dim + 1] = rows.sum[r][row_slot(i)];
      }
    }
    return;
  }
  T* const y = static_cast<T*>(a.y) + to.first * a.dim;
  const i64 row_elements = static_cast<i64>(to.step) * a.dim;
  if constexpr (kColumnPairs) {
    const bool aligned = a.dim % 2 == 0;
    for_outputs<2>(a, count, rows, [&](i32 row, i32 d, const float* sums) {
      T* const result = y + row * row_elements + d;
      const u32 pair = pack<T>(sums[0], sums[1]);
      if (aligned) {
        *reinterpret_cast<u32*>(result) = pair;
      } else {
        result[0] = T{static_cast<u16>(pair)};
        if (d + 1 < a.dim) result[1] = T{static_cast<u16>(pair >> 16)};
      }
    });
  } else {
    for_outputs<1>(a, count, rows,
                   [&](i32 row, i32 d, const float* sum) { y[row * row_elements + d] = from_float<T>(*sum); });
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
