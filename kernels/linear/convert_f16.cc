// Conversions for GEMMs on matrix cores: activations to f16, weights to f16 for a vendor's BLAS library, and the
// epilogue after it.
#include "kernels/linear/convert_f16.h"

#include "kernels/linear/batch_order.h"
#include "kernels/linear/expert_linear.h"
#include "kernels/linear/linear_finish.h"

namespace gabbro::gpu::GABBRO_GPU {

// Orders in which threads take a row's elements, four at a time: number i is two pairs, from first(i) on, kApart
// columns from each other.
struct InOrder {
  static constexpr i32 kApart = 2;
  GPU_FUNCTION static i32 first(i32 i) { return i * 4; }
};
// As takes_together() wants them: those of two neighboring lanes, see batch_place().
struct ForLanes {
  static constexpr i32 kApart = 32;
  GPU_FUNCTION static i32 first(i32 i) { return i / 32 * kBatchDepth + i % 32 / 16 * 64 + i % 16 * 2; }
};

// Without branches, so that many loads are under way: pairs past the end repeat the last one.
template <class Order>
GPU_FUNCTION inline void load_four(const float* row, i32 k, i32 columns, float* values) {
  if constexpr (Order::kApart == 2) {  // rows have whole fours
    const Vec16 vec = load_vec16(row + min_of(k, columns - 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = bits_to_float(vec.word[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i32 own = min_of(k + i * Order::kApart, columns - 2);
      const FloatPair pair = *reinterpret_cast<const FloatPair*>(row + own);
      values[2 * i] = pair.a;
      values[2 * i + 1] = pair.b;
    }
  }
}

// A row to convert to f16: x, or silu(first · scale) · (second · scale).
struct PlainRow {
  const float* x;
  template <class Order>
  GPU_FUNCTION void load(i32 k, i32 columns, float* values) const {
    load_four<Order>(x, k, columns, values);
  }
};
struct GatedRow {
  const float* first;
  const float* second;
  float scale;
  template <class Order>
  GPU_FUNCTION void load(i32 k, i32 columns, float* values) const {
    float two[4];
    load_four<Order>(first, k, columns, values);
    load_four<Order>(second, k, columns, two);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = silu(values[i] * scale) * (two[i] * scale);
  }
};

// A thread's share of a row, four elements at a time; what is past the row's end counts as zeros up to `depth`. The
// first ones stay in registers, so that the row is read once; of a longer row the rest is read for each pass.
template <class Row, int held, i32 threads, class Order = InOrder>
class RowShare {
 public:
  GPU_FUNCTION RowShare(const Row& row, const float* norm, i32 columns, i32 depth)
      : row_(row), norm_(norm), columns_(columns), depth_(depth) {
#pragma unroll
    for (int i = 0; i < held; ++i) load(i, held_[i]);
  }
  // body(k, values) for each four, of which k is the first one's column.
  template <class Body>
  GPU_FUNCTION void for_vectors(Body body) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) < depth_) body(column(i), held_[i]);
    }
    for (int i = held; column(i) < depth_; ++i) {
      float values[4];
      load(i, values);
      scale(column(i), values);
      body(column(i), values);
    }
  }
  // From here on they are what they were, times factor · norm.
  GPU_FUNCTION void normalize(float factor) {
    factor_ = factor;
#pragma unroll
    for (int i = 0; i < held; ++i) scale(column(i), held_[i]);
  }

 private:
  GPU_FUNCTION static i32 column(int i) { return Order::first(static_cast<i32>(thread_index()) + i * threads); }
  GPU_FUNCTION void load(int i, float* values) const {
    const i32 k = column(i);
    row_.template load<Order>(k, columns_, values);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (k + j % 2 + j / 2 * Order::kApart >= columns_) values[j] = 0;
    }
  }
  GPU_FUNCTION void scale(i32 k, float* values) const {
    if (factor_ == 0) return;
    float norm[4];
    load_four<Order>(norm_, k, columns_, norm);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] *= factor_ * norm[i];
  }

  const Row row_;
  const float* norm_;
  i32 columns_, depth_;
  float factor_ = 0;  // 0: there is no norm, or not yet
  float held_[held][4];
};

// The block's row as f16, and the factor that undoes its scale: see ConvertRowsArgs. The four elements from column k on
// go to f16 + place(k).
template <class Share, class Place>
GPU_FUNCTION inline void store_f16(Share& share, Half* f16, float* undone_by, Place place) {
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
    *reinterpret_cast<u64*>(f16 + place(k)) = pack_f16x2(values[0] * scale, values[1] * scale) |
                                              static_cast<u64>(pack_f16x2(values[2] * scale, values[3] * scale)) << 32;
  });
}

template <int held, i32 threads, class Order, class Place>
GPU_FUNCTION inline void convert_row_f16(const ConvertRowsArgs& a, i64 row, Half* f16, Place place) {
  RowShare<PlainRow, held, threads, Order> share({a.x + row * a.columns}, a.norm, a.columns, a.depth);
  if (a.norm != nullptr) {
    float squares = 0;
    share.for_vectors([&](i32, const float* values) {
#pragma unroll
      for (int i = 0; i < 4; ++i) squares = fma(values[i], values[i], squares);
    });
    share.normalize(1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon));
  }
  store_f16(share, f16, a.scales + row, place);
}

struct SamePlace {
  GPU_FUNCTION i32 operator()(i32 k) const { return k; }
};
// Four elements of an Order are neighbors there.
struct BatchPlace {
  i32 token, padded;
  bool blocks;
  GPU_FUNCTION i64 operator()(i32 k) const { return batch_place(token, k, padded, blocks); }
};

template <int held, i32 threads>
GPU_FUNCTION inline void convert_rows_f16(const ConvertRowsArgs& a) {
  const i64 row = block_index().x;
  convert_row_f16<held, threads, InOrder>(a, row, a.f16 + row * a.depth, SamePlace{});
}

template <int held, class Order>
GPU_FUNCTION inline void convert_batch_row(const ConvertBatchArgs& a) {
  const i32 token = static_cast<i32>(block_index().x);
  const BatchPlace place = {token, a.padded, a.blocks};
  if (token < a.tokens) return convert_row_f16<held, kConvertThreads, Order>(a.rows, token, a.rows.f16, place);
  for (i32 i = static_cast<i32>(thread_index()); i < a.rows.depth / 4; i += kConvertThreads) {
    *reinterpret_cast<u64*>(a.rows.f16 + place(Order::first(i))) = 0;
  }
}
template <int held>
GPU_FUNCTION inline void convert_batch_f16(const ConvertBatchArgs& a) {
  if (takes_together(min_of(a.padded, kMaxBatchTile), a.blocks)) return convert_batch_row<held, ForLanes>(a);
  convert_batch_row<held, InOrder>(a);
}

struct RowPlace {
  bool together;
  GPU_FUNCTION i32 operator()(i32 k) const { return row_place(k, together); }
};
GPU_FUNCTION inline void convert_expert_f16(const ConvertExpertArgs& a) {
  const i64 row = block_index().x;
  const RowPlace place = {takes_together(a.tile, a.blocks)};
  Half* f16 = a.rows.f16 + row * a.rows.depth;
  if (place.together) return convert_row_f16<kConvertedRowVectors, kLinearThreads, ForLanes>(a.rows, row, f16, place);
  convert_row_f16<kConvertedRowVectors, kLinearThreads, InOrder>(a.rows, row, f16, place);
}

GPU_FUNCTION inline void convert_gated_f16(const ConvertGatedArgs& a) {
  const i64 row = block_index().x;
  const GatedRow gated = {a.first + row * a.columns, a.second + row * a.columns, a.scales_before[row]};
  RowShare<GatedRow, kConvertedWideRowVectors, kConvertThreads> share(gated, nullptr, a.columns, a.depth);
  store_f16(share, a.f16 + row * a.depth, a.scales + row, SamePlace{});
}

// A thread converts a block of 32 codes, and the threads together store what they have in memory's order: by the
// block's memory, in which the four vectors of a thread are swapped so that eight neighbors use all banks.
template <Packing p>
GPU_FUNCTION inline void convert_weights_f16(const ConvertWeightsArgs& a) {
  constexpr int kGroups = kBlock / p.group, kVectors = kBlock / 8;
  GPU_SHARED(Vec16, staged, kVectors * kLinearThreads);
  const auto place = [](u32 thread, u32 vector) { return thread * kVectors + (vector ^ thread / 2 % kVectors); };
  const i64 row_blocks = a.columns / kBlock, blocks = a.rows * row_blocks;
  const i64 first = static_cast<i64>(block_index().x) * kLinearThreads, own = first + thread_index();
  if (own < blocks) {
    const i64 block = a.first_row * row_blocks + own;
    float scales[kGroups], minimums[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      scales[g] = group_scale<p>(a.matrix, block * kGroups + g);
      if constexpr (p.minimum) minimums[g] = group_minimum<p>(a.matrix, block * kGroups + g);
    }
    u32 f16[16];
    convert_block<p>(load_codes<p>(a.matrix, block), scales, minimums, f16);
#pragma unroll
    for (u32 v = 0; v < kVectors; ++v) {
      staged[place(thread_index(), v)] = Vec16{f16[4 * v], f16[4 * v + 1], f16[4 * v + 2], f16[4 * v + 3]};
    }
  }
  barrier();
#pragma unroll
  for (u32 i = 0; i < kVectors; ++i) {
    const u32 vector = i * kLinearThreads + thread_index(), thread = vector / kVectors;
    if (first + thread < blocks)
      store_vec16(a.f16 + first * kBlock + vector * 8, staged[place(thread, vector % kVectors)]);
  }
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

GPU_KERNEL(convert_rows_f16, 256, gabbro::gpu::ConvertRowsArgs,
           convert_rows_f16<gabbro::gpu::kConvertedRowVectors, gabbro::gpu::kLinearThreads>)
GPU_KERNEL(convert_wide_rows_f16, 1024, gabbro::gpu::ConvertRowsArgs,
           convert_rows_f16<gabbro::gpu::kConvertedWideRowVectors, gabbro::gpu::kConvertThreads>)
GPU_KERNEL(convert_batch_f16, 1024, gabbro::gpu::ConvertBatchArgs,
           convert_batch_f16<gabbro::gpu::kConvertedBatchVectors>)
GPU_KERNEL(convert_wide_batch_f16, 1024, gabbro::gpu::ConvertBatchArgs,
           convert_batch_f16<gabbro::gpu::kConvertedWideRowVectors>)
GPU_KERNEL(convert_expert_f16, 256, gabbro::gpu::ConvertExpertArgs, convert_expert_f16)
GPU_KERNEL(convert_gated_f16, 1024, gabbro::gpu::ConvertGatedArgs, convert_gated_f16)
GPU_KERNEL(linear_finish, 256, gabbro::gpu::LinearFinishArgs, linear_finish)
GPU_KERNEL(convert_weights_f16_bf16, 256, gabbro::gpu::ConvertWeightsArgs, convert_bf16_weights)

#define GABBRO_HALVE(name)                                                     \
  GPU_KERNEL(convert_weights_f16_##name, 256, gabbro::gpu::ConvertWeightsArgs, \
             convert_weights_f16<GABBRO_PACKING(name)>)

GABBRO_FOR_EACH_FORMAT(GABBRO_HALVE)
