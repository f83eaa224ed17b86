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
// In the order of takes_together(): elements of two neighboring lanes, see step_place().
template <bool blocks>
struct ForLanes {
  static constexpr i32 kApart = blocks ? 32 : 8, kPairs = kApart / 2;
  GPU_FUNCTION static i32 first(i32 i) { return i / kPairs * kPairs * 4 + i % kPairs * 2; }
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

// A norm's weights of the thread's first fours of a row: loaded while the launch ahead still runs. Wide rows need the
// registers for themselves.
template <int held, i32 threads, class Order>
struct EarlyNorm {
  static constexpr int kCount = held > 4 ? 0 : 2;
  const float* norm;
  float value[kCount > 0 ? kCount : 1][4];
  GPU_FUNCTION EarlyNorm(const float* weights, i32 columns, i32 from = 0) : norm(weights) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      load_four<Order>(norm, from + Order::first(static_cast<i32>(thread_index()) + i * threads), columns, value[i]);
    }
  }
};

// A thread's share of a row from column `from` on, four elements at a time; what is past the row's end counts as zeros
// up to `depth`. The
// first ones stay in registers, so that the row is read once; of a longer row the rest is read for each pass.
template <class Row, int held, i32 threads, class Order = InOrder>
class RowShare {
 public:
  GPU_FUNCTION RowShare(const Row& row, i32 columns, i32 depth, i32 from = 0)
      : row_(row), columns_(columns), depth_(depth), from_(from) {
#pragma unroll
    for (int i = 0; i < held; ++i) load(i, held_[i]);
  }
  // body(k, values) for each four; k is the column of the first.
  template <class Body>
  GPU_FUNCTION void for_vectors(Body body) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) < depth_) body(column(i), held_[i]);
    }
    for (int i = held; column(i) < depth_; ++i) {
      float values[4];
      load(i, values);
      body(column(i), values);
    }
  }
  // With the norm's weights: body(k, values, weights).
  template <class Body>
  GPU_FUNCTION void for_vectors(const EarlyNorm<held, threads, Order>& norm, Body body) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (column(i) >= depth_) continue;
      if (i < norm.kCount) {
        body(column(i), held_[i], norm.value[i]);
      } else {
        float weights[4];
        load_four<Order>(norm.norm, column(i), columns_, weights);
        body(column(i), held_[i], weights);
      }
    }
    for (int i = held; column(i) < depth_; ++i) {
      float values[4], weights[4];
      load(i, values);
      load_four<Order>(norm.norm, column(i), columns_, weights);
      body(column(i), values, weights);
    }
  }

 private:
  GPU_FUNCTION i32 column(int i) const { return from_ + Order::first(static_cast<i32>(thread_index()) + i * threads); }
  GPU_FUNCTION void load(int i, float* values) const {
    const i32 k = column(i);
    row_.template load<Order>(k, columns_, values);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (k + j % 2 + j / 2 * Order::kApart >= columns_) values[j] = 0;
    }
  }

  const Row row_;
  i32 columns_, depth_, from_;
  float held_[held][4];
};

GPU_FUNCTION inline void store_four(Half* to, const float* values, float scale) {
  *reinterpret_cast<u64*>(to) = pack_f16x2(values[0] * scale, values[1] * scale) |
                                static_cast<u64>(pack_f16x2(values[2] * scale, values[3] * scale)) << 32;
}

// The block's row as f16; the four elements from column k on go to f16 + place(k).
template <class Share, class Place>
GPU_FUNCTION inline void store_f16(Share& share, Half* f16, float* undone_by, Place place) {
  float peak = 0;
  share.for_vectors([&](i32, const float* values) {
#pragma unroll
    for (int i = 0; i < 4; ++i) peak = max_of(peak, abs(values[i]));
  });
  const F16Scale scale = f16_scale(block_max(peak));
  if (thread_index() == 0) *undone_by = scale.undone_by;
  share.for_vectors([&](i32 k, const float* values) { store_four(f16 + place(k), values, scale.factor); });
}

// Sum of the threads' `sum` and the largest of their `peak`, in every thread: block_sum() and block_max() with the
// barriers of one of them.
GPU_FUNCTION inline void add_block(float& sum, float& peak) {
  GPU_SHARED(FloatPair, parts, kMaxWaves);
  const FloatPair own = {wave_sum(sum), wave_max(peak)};
  if (lane() == 0) parts[wave_index()] = own;
  barrier();
  sum = peak = 0;
  for (u32 w = 0; w < block_size() / kWave; ++w) {
    sum += parts[w].a;
    peak = max_of(peak, parts[w].b);
  }
}

// Waits for the launch ahead.
template <int held, i32 threads, class Order, class Place>
GPU_FUNCTION inline void convert_row_f16(const ConvertRowsArgs& a, i64 row, Half* f16, Place place) {
  using Share = RowShare<PlainRow, held, threads, Order>;
  const PlainRow x = {a.x + row * a.columns};
  if (a.norm == nullptr) {
    wait_for_previous();
    Share share(x, a.columns, a.depth);
    return store_f16(share, f16, a.scales + row, place);
  }
  const EarlyNorm<held, threads, Order> norm(a.norm, a.columns);
  wait_for_previous();
  Share share(x, a.columns, a.depth);
  float squares = 0, peak = 0;
  share.for_vectors(norm, [&](i32, const float* values, const float* weights) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      squares = fma(values[i], values[i], squares);
      peak = max_of(peak, abs(values[i] * weights[i]));
    }
  });
  add_block(squares, peak);
  const float factor = 1 / sqrt(squares / static_cast<float>(a.columns) + a.epsilon);
  const F16Scale scale = f16_scale(peak * factor);
  if (thread_index() == 0) a.scales[row] = scale.undone_by;
  share.for_vectors(norm, [&](i32 k, const float* values, const float* weights) {
    float normalized[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) normalized[i] = values[i] * (factor * weights[i]);
    store_four(f16 + place(k), normalized, scale.factor);
  });
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

template <int held, i32 threads, class Order>
GPU_FUNCTION inline void convert_batch_part(const ConvertBatchArgs& a) {
  const i32 token = static_cast<i32>(block_index().x), part = static_cast<i32>(block_index().y),
            parts = static_cast<i32>(grid_size().y);
  const i32 begin = batch_part(a.depth, part, parts), end = batch_part(a.depth, part + 1, parts);
  const BatchPlace place = {token, a.padded, a.blocks};
  if (token >= a.tokens) {
    wait_for_previous();  // earlier launches may still read
    for (i32 i = static_cast<i32>(thread_index()); i < (end - begin) / 4; i += threads) {
      *reinterpret_cast<u64*>(a.f16 + place(begin + Order::first(i))) = 0;
    }
    return;
  }
  const PlainRow x = {a.x + static_cast<i64>(token) * a.columns};
  using Share = RowShare<PlainRow, held, threads, Order>;
  const i32 at = token * parts + part;
  const auto convert = [&](auto for_fours) {  // which calls its body(k, values, values times the norm's weights)
    float squares = 0, peak = 0;
    for_fours([&](i32, const float* values, const float* products) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        squares = fma(values[i], values[i], squares);
        peak = max_of(peak, abs(products[i]));
      }
    });
    add_block(squares, peak);
    const F16Scale scale = f16_scale(peak);
    if (thread_index() == 0) {
      a.scales[at] = scale.undone_by;
      if (a.norm != nullptr) a.squares[at] = squares;
    }
    for_fours(
        [&](i32 k, const float*, const float* products) { store_four(a.f16 + place(k), products, scale.factor); });
  };
  if (a.norm == nullptr) {
    wait_for_previous();
    Share share(x, a.columns, end, begin);
    return convert([&](auto body) { share.for_vectors([&](i32 k, const float* values) { body(k, values, values); }); });
  }
  const EarlyNorm<held, threads, Order> norm(a.norm, a.columns, begin);
  wait_for_previous();
  Share share(x, a.columns, end, begin);
  convert([&](auto body) {
    share.for_vectors(norm, [&](i32 k, const float* values, const float* weights) {
      float products[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) products[i] = values[i] * weights[i];
      body(k, values, products);
    });
  });
}
template <int held, i32 threads>
GPU_FUNCTION inline void convert_batch_f16(const ConvertBatchArgs& a) {
  if (!takes_together(min_of(a.padded, kMaxBatchTile))) return convert_batch_part<held, threads, InOrder>(a);
  if (a.blocks) return convert_batch_part<held, threads, ForLanes<true>>(a);
  convert_batch_part<held, threads, ForLanes<false>>(a);
}

struct RowPlace {
  bool together, blocks;
  GPU_FUNCTION i32 operator()(i32 k) const { return row_place(k, together, blocks); }
};
GPU_FUNCTION inline void convert_expert_f16(const ConvertExpertArgs& a) {
  const i64 row = block_index().x;
  const RowPlace place = {takes_together(a.tile), a.blocks};
  Half* f16 = a.rows.f16 + row * a.rows.depth;
  const auto convert = [&](auto order) {
    convert_row_f16<kConvertedRowVectors, kLinearThreads, decltype(order)>(a.rows, row, f16, place);
  };
  if (!place.together) return convert(InOrder());
  if (a.blocks) return convert(ForLanes<true>());
  convert(ForLanes<false>());
}

GPU_FUNCTION inline void convert_gated_f16(const ConvertGatedArgs& a) {
  const i64 row = block_index().x;
  const GatedRow gated = {a.first + row * a.columns, a.second + row * a.columns, a.scales_before[row]};
  RowShare<GatedRow, kConvertedWideRowVectors, kConvertThreads> share(gated, a.columns, a.depth);
  store_f16(share, a.f16 + row * a.depth, a.scales + row, SamePlace{});
}

// A thread converts a block of 32 codes, and the threads together store the results in memory's order, through the
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

GPU_EARLY_KERNEL(convert_rows_f16, 256, gabbro::gpu::ConvertRowsArgs,
                 convert_rows_f16<gabbro::gpu::kConvertedRowVectors, gabbro::gpu::kLinearThreads>)
GPU_EARLY_KERNEL(convert_wide_rows_f16, 1024, gabbro::gpu::ConvertRowsArgs,
                 convert_rows_f16<gabbro::gpu::kConvertedWideRowVectors, gabbro::gpu::kConvertThreads>)
// Kernels by the number of vectors that a thread holds.
#define GABBRO_CONVERT_BATCH(vectors)                                                \
  GPU_EARLY_KERNEL(convert_batch_f16_##vectors, 1024, gabbro::gpu::ConvertBatchArgs, \
                   convert_batch_f16<vectors, gabbro::gpu::kConvertThreads>)
GABBRO_CONVERT_BATCH(1)
GABBRO_CONVERT_BATCH(2)
GABBRO_CONVERT_BATCH(4)
GPU_EARLY_KERNEL(convert_batch_parts_f16, 320, gabbro::gpu::ConvertBatchArgs,
                 convert_batch_f16<gabbro::gpu::kConvertedPartVectors, gabbro::gpu::kPartThreads>)
GPU_EARLY_KERNEL(convert_expert_f16, 256, gabbro::gpu::ConvertExpertArgs, convert_expert_f16)
GPU_KERNEL(convert_gated_f16, 1024, gabbro::gpu::ConvertGatedArgs, convert_gated_f16)
GPU_KERNEL(linear_finish, 256, gabbro::gpu::LinearFinishArgs, linear_finish)
GPU_KERNEL(convert_weights_f16_bf16, 256, gabbro::gpu::ConvertWeightsArgs, convert_bf16_weights)

#define GABBRO_HALVE(name)                                                     \
  GPU_KERNEL(convert_weights_f16_##name, 256, gabbro::gpu::ConvertWeightsArgs, \
             convert_weights_f16<GABBRO_PACKING(name)>)

GABBRO_FOR_EACH_FORMAT(GABBRO_HALVE)
