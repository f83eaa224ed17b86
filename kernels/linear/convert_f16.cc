// Conversions for GEMMs on matrix cores: activations to f16, weights to f16 for a vendor's BLAS library, and the
// epilogue after it.
#include "kernels/linear/convert_f16.h"

#include "kernels/linear/batch_order.h"
#include "kernels/linear/linear_finish.h"

namespace gabbro::gpu::GABBRO_GPU {

// A row to convert to f16: x, or silu(first · scale) · (second · scale).
struct PlainRow {
  const float* x;
  GPU_FUNCTION void load(i32 k, float* values) const {
    const Vec16 vec = load_vec16(x + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = bits_to_float(vec.word[i]);
  }
};
struct GatedRow {
  const float* first;
  const float* second;
  float scale;
  GPU_FUNCTION void load(i32 k, float* values) const {
    const Vec16 one = load_vec16(first + k), two = load_vec16(second + k);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = silu(bits_to_float(one.word[i]) * scale) * (bits_to_float(two.word[i]) * scale);
  }
};

// A thread's share of a row, four elements at a time. The first ones stay in registers, so that the row is read once;
// of a longer row the rest is read for each pass.
template <class Row, int held>
class RowShare {
 public:
  GPU_FUNCTION RowShare(const Row& row, const float* norm, i32 columns) : row_(row), norm_(norm), columns_(columns) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) < columns_) row_.load(column(i), held_[i]);
    }
  }
  // body(k, values) for each four.
  template <class Body>
  GPU_FUNCTION void for_vectors(Body body) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) < columns_) body(column(i), held_[i]);
    }
    for (int i = held; column(i) < columns_; ++i) {
      float values[4];
      row_.load(column(i), values);
      scale(column(i), values);
      body(column(i), values);
    }
  }
  // From here on they are what they were, times factor · norm.
  GPU_FUNCTION void normalize(float factor) {
    factor_ = factor;
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) < columns_) scale(column(i), held_[i]);
    }
  }

 private:
  GPU_FUNCTION static i32 column(int i) { return (static_cast<i32>(thread_index()) + i * kLinearThreads) * 4; }
  GPU_FUNCTION void scale(i32 k, float* values) const {
    if (factor_ == 0) return;
    const Vec16 norm = load_vec16(norm_ + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] *= factor_ * bits_to_float(norm.word[i]);
  }

  const Row row_;
  const float* norm_;
  i32 columns_;
  float factor_ = 0;  // 0: there is no norm, or not yet
  float held_[held][4];
};

// The block's row as f16, and the factor that undoes its scale: see ConvertRowsArgs. `place` stores them.
template <class Share, class Place>
GPU_FUNCTION inline void store_f16(Share& share, i32 columns, i32 depth, Half* f16, float* undone_by, Place place) {
  float peak = 0;
  share.for_vectors([&](i32, const float* values) {
#pragma unroll
    for (int i = 0; i < 4; ++i) peak = max_of(peak, abs(values[i]));
  });
  // 2^e ≤ peak < 2^(e + 1), as f32's biased exponent; of a row that is not finite the largest. Most rows need nothing,
  // the others are multiplied by 2^(14 - e).
  u32 exponent = min_of(max_of(float_to_bits(block_max(peak)) >> 23, 15u), 254u);
  if (exponent >= 127 - 4 && exponent < 127 + 15) exponent = 127 + 14;
  const float scale = bits_to_float((268 - exponent) << 23);
  if (thread_index() == 0) *undone_by = bits_to_float((exponent - 14) << 23);
  share.for_vectors([&](i32 k, const float* values) {
    place.store(f16, k, pack_f16x2(values[0] * scale, values[1] * scale),
                pack_f16x2(values[2] * scale, values[3] * scale));
  });
  for (i32 k = columns + static_cast<i32>(thread_index()) * 4; k < depth; k += kLinearThreads * 4)
    place.store(f16, k, 0, 0);
}

template <int held, class Place>
GPU_FUNCTION inline void convert_row_f16(const ConvertRowsArgs& a, i64 row, Half* f16, Place place) {
  RowShare<PlainRow, held> share({a.x + row * a.columns}, a.norm, a.columns);
  if (a.norm != nullptr) {
    float squares = 0;
    share.for_vectors([&](i32, const float* values) {
#pragma unroll
      for (int i = 0; i < 4; ++i) squares = fma(values[i], values[i], squares);
    });
    share.normalize(1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon));
  }
  store_f16(share, a.columns, a.depth, f16, a.scales + row, place);
}

// Where a row's elements go, four at a time.
struct InOrder {
  GPU_FUNCTION static void store(Half* f16, i32 k, u32 first, u32 second) {
    *reinterpret_cast<u64*>(f16 + k) = first | static_cast<u64>(second) << 32;
  }
};
struct InBatchOrder {
  i32 token, padded;
  bool blocks;
  GPU_FUNCTION void store(Half* f16, i32 k, u32 first, u32 second) const {
    Half* to = f16 + batch_place(token, k, padded, blocks);
    if (!takes_together(min_of(padded, kMaxBatchTile), blocks)) return InOrder::store(to, 0, first, second);
    *reinterpret_cast<u32*>(to) = first;
    *reinterpret_cast<u32*>(f16 + batch_place(token, k + 2, padded, blocks)) = second;
  }
};

template <int held>
GPU_FUNCTION inline void convert_rows_f16(const ConvertRowsArgs& a) {
  const i64 row = block_index().x;
  convert_row_f16<held>(a, row, a.f16 + row * a.depth, InOrder{});
}

template <int held>
GPU_FUNCTION inline void convert_batch_f16(const ConvertBatchArgs& a) {
  const i32 token = static_cast<i32>(block_index().x);
  const InBatchOrder place = {token, a.padded, a.blocks};
  if (token < a.tokens) return convert_row_f16<held>(a.rows, token, a.rows.f16, place);
  for (i32 k = static_cast<i32>(thread_index()) * 4; k < a.rows.depth; k += kLinearThreads * 4)
    place.store(a.rows.f16, k, 0, 0);
}

template <int held>
GPU_FUNCTION inline void convert_gated_f16(const ConvertGatedArgs& a) {
  const i64 row = block_index().x;
  const GatedRow gated = {a.first + row * a.columns, a.second + row * a.columns, a.scales_before[row]};
  RowShare<GatedRow, held> share(gated, nullptr, a.columns);
  store_f16(share, a.columns, a.depth, a.f16 + row * a.depth, a.scales + row, InOrder{});
}

// A thread a block of 32 codes.
template <Packing p>
GPU_FUNCTION inline void convert_weights_f16(const ConvertWeightsArgs& a) {
  constexpr int kGroups = kBlock / p.group;
  const i64 index = global_index();
  if (index >= static_cast<i64>(a.rows) * (a.columns / kBlock)) return;
  const i64 block = static_cast<i64>(a.first_row) * (a.columns / kBlock) + index;
  float scales[kGroups], minimums[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    scales[g] = group_scale<p>(a.matrix, block * kGroups + g);
    if constexpr (p.minimum) minimums[g] = group_minimum<p>(a.matrix, block * kGroups + g);
  }
  store_block<p>(load_codes<p>(a.matrix, block), scales, minimums, a.f16 + index * kBlock);
}

// A thread eight weights.
GPU_FUNCTION inline void convert_bf16_weights(const ConvertWeightsArgs& a) {
  const i64 index = global_index(), vectors = a.columns / 8;
  if (index >= a.rows * vectors) return;
  const u8* row = a.matrix.low + (a.first_row + index / vectors) * a.matrix.row_step;
  store_vec16(a.f16 + index * 8, f16_of_bf16(load_vec16(row + index % vectors * 16)));
}

// y = silu(y) · (what the second matrix gives), four rows a thread at a time.
GPU_FUNCTION inline void finish_pairs(const LinearFinishArgs& a, i32 token, float scale) {
  constexpr i32 kVectors = kFinishRows / (4 * kLinearThreads);  // a thread
  static_assert(kVectors * 4 * kLinearThreads == kFinishRows);
  const LinearMatrix &one = a.matrices[0], &two = a.matrices[1];
  const i64 begin = static_cast<i64>(token) * one.rows;
  Vec16 first[kVectors] = {}, second[kVectors] = {};
  const auto row_of = [](i32 i) {
    return static_cast<i32>(block_index().y) * kFinishRows +
           (i * kLinearThreads + static_cast<i32>(thread_index())) * 4;
  };
#pragma unroll
  for (i32 i = 0; i < kVectors; ++i) {
    if (row_of(i) >= one.rows) continue;
    first[i] = load_vec16(one.y + begin + row_of(i));
    second[i] = load_vec16(two.y + begin + row_of(i));
  }
#pragma unroll
  for (i32 i = 0; i < kVectors; ++i) {
    const i32 row = row_of(i);
    if (row >= one.rows) continue;
    Vec16 result;
#pragma unroll
    for (i32 j = 0; j < 4; ++j) {
      const float x = bits_to_float(first[i].word[j]) * scale + (one.bias != nullptr ? one.bias[row + j] : 0);
      const float y = bits_to_float(second[i].word[j]) * scale + (two.bias != nullptr ? two.bias[row + j] : 0);
      result.word[j] = float_to_bits(silu(x) * y);
    }
    store_vec16(one.y + begin + row, result);
  }
}

// A block per part of a token's row. The products are in y, with kAdd together with the residual.
GPU_FUNCTION inline void linear_finish(const LinearFinishArgs& a) {
  const LinearMatrix& m = a.matrices[0];
  const i32 token = static_cast<i32>(block_index().x);
  const float scale = a.scales[token];
  if (scale == 1 && a.epilogue != Epilogue::kSiluMul && m.bias == nullptr) return;
  if (a.epilogue == Epilogue::kSiluMul && m.rows % 4 == 0) return finish_pairs(a, token, scale);
  const i32 first = static_cast<i32>(block_index().y) * kFinishRows + static_cast<i32>(thread_index());
#pragma unroll
  for (i32 row = first; row < first + kFinishRows; row += kLinearThreads) {
    if (row >= m.rows) continue;
    const i64 place = static_cast<i64>(token) * m.rows + row;
    const float second = a.epilogue == Epilogue::kSiluMul ? a.matrices[1].y[place] * scale : 0;
    const float product = a.epilogue == Epilogue::kAdd ? m.y[place] - a.residual[place] : m.y[place];
    store_product(a, m, row, token, product * scale, second);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(convert_rows_f16, 256, gabbro::gpu::ConvertRowsArgs, convert_rows_f16<gabbro::gpu::kConvertedRowVectors>)
GPU_KERNEL(convert_wide_rows_f16, 256, gabbro::gpu::ConvertRowsArgs,
           convert_rows_f16<gabbro::gpu::kConvertedWideRowVectors>)
GPU_KERNEL(convert_batch_f16, 256, gabbro::gpu::ConvertBatchArgs, convert_batch_f16<gabbro::gpu::kConvertedRowVectors>)
GPU_KERNEL(convert_wide_batch_f16, 256, gabbro::gpu::ConvertBatchArgs,
           convert_batch_f16<gabbro::gpu::kConvertedWideRowVectors>)
GPU_KERNEL(convert_gated_f16, 256, gabbro::gpu::ConvertGatedArgs,
           convert_gated_f16<gabbro::gpu::kConvertedWideRowVectors>)
GPU_KERNEL(linear_finish, 256, gabbro::gpu::LinearFinishArgs, linear_finish)
GPU_KERNEL(convert_weights_f16_bf16, 256, gabbro::gpu::ConvertWeightsArgs, convert_bf16_weights)

#define GABBRO_HALVE(name)                                                     \
  GPU_KERNEL(convert_weights_f16_##name, 256, gabbro::gpu::ConvertWeightsArgs, \
             convert_weights_f16<GABBRO_PACKING(name)>)

GABBRO_FOR_EACH_FORMAT(GABBRO_HALVE)
