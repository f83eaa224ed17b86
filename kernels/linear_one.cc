// Weights of any format times one token, bound by memory: a wave a row or two. Nothing is launched before to prepare x:
// with quantised weights each block rounds the whole of it for itself, and with an RMSNorm before (y = x·weight /
// rms(x), Zhang & Sennrich 2019) the products are those of x·weight, and 1 / rms(x) comes at the end.
#include "kernels/codes.h"
#include "kernels/linear_finish.h"
#include "kernels/plain.h"

namespace gabbro::gpu::GABBRO_GPU {

// The rows that a wave handles together: neighbours, or with kSiluMul, where `count` is two, the same row of both
// matrices.
template <int count>
struct Rows {
  int matrix[count];
  i32 row[count];  // past the end of the matrix: not there
};

// Number `index` of those of all matrices.
template <int count>
GPU_FUNCTION inline Rows<count> rows_at(const LinearArgs& a, i32 index) {
  if constexpr (count == 2) {
    if (a.epilogue == Epilogue::kSiluMul) return {{0, 1}, {index, index}};
  }
  const auto of_matrix = [&](int m) { return (a.matrices[m].rows + count - 1) / count; };
  int matrix = 0;
  while (index >= of_matrix(matrix)) index -= of_matrix(matrix++);
  Rows<count> rows;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    rows.matrix[i] = matrix;
    rows.row[i] = index * count + i;
  }
  return rows;
}

GPU_FUNCTION inline i32 first_index() {
  return static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
}
GPU_FUNCTION inline i32 indices_at_once() { return static_cast<i32>(grid_size().x * (block_size() / kWave)); }

// The row that is read: where there is none, the last.
template <int count>
GPU_FUNCTION inline i32 row_to_read(const LinearArgs& a, const Rows<count>& rows, int i) {
  return min_of(rows.row[i], a.matrices[rows.matrix[i]].rows - 1);
}

// `sums`: this lane's shares.
template <int count>
GPU_FUNCTION inline void finish(const LinearArgs& a, const Rows<count>& rows, float factor, const float* sums) {
  float values[count];
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = wave_sum(sums[i]) * factor;
  if (lane() != 0) return;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const LinearMatrix& m = a.matrices[rows.matrix[i]];
    if (m.bias != nullptr && rows.row[i] < m.rows) values[i] += m.bias[rows.row[i]];
  }
  const LinearMatrix& m = a.matrices[rows.matrix[0]];
  if constexpr (count == 2) {
    if (a.epilogue == Epilogue::kSiluMul) {
      m.y[rows.row[0]] = silu(values[0]) * values[1];
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (rows.row[i] >= m.rows) continue;
    if (a.epilogue == Epilogue::kAdd) values[i] += a.residual[rows.row[i]];
    m.y[rows.row[i]] = values[i];
  }
}

// 32 elements of x in the block's memory: codes in ±127 with a scale (the scheme of llama.cpp's q8_1). 48 bytes, so
// that the lanes of a wave meet in no bank.
struct RoundedBlock {
  Quad low, high;  // codes
  float scale;
  i32 sums[2];  // of the codes of each half
  i32 unused;
};

// Rounds x·norm into `row`, and returns 1 / rms(x), or 1 without a norm. A thread four elements at a time.
GPU_FUNCTION inline float round_row(const LinearArgs& a, RoundedBlock* row) {
  float squares = 0;
  const i32 fours = a.columns / 4, wave = static_cast<i32>(kWave);
  const i32 end = (fours + wave - 1) / wave * wave;  // all lanes of a wave take part in its shuffles
  for (i32 four = static_cast<i32>(thread_index()); four < end; four += static_cast<i32>(block_size())) {
    const bool inside = four < fours;
    const Quad bits = load_quad(a.x + (inside ? four : 0) * 4);
    float values[4], peak = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = inside ? bits_to_float(bits.word[i]) : 0;
    if (a.norm != nullptr) {
      const Quad weights = load_quad(a.norm + (inside ? four : 0) * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        squares = fma(values[i], values[i], squares);
        values[i] *= bits_to_float(weights.word[i]);
      }
    }
#pragma unroll
    for (const float value : values) peak = max_of(peak, abs(value));
    for (u32 step = 1; step < 8; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
    const float inverse = peak > 7.5231638e-37f ? 127 / peak : 0;  // 2⁻¹²⁰: below it the reciprocal would overflow
    u32 word = 0;
    i32 sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const i32 code = round_to_int(values[i] * inverse);
      word |= (static_cast<u32>(code) & 0xff) << 8 * i;
      sum += code;
    }
    for (u32 step = 1; step < 4; step *= 2) sum += shuffle_xor(sum, step);
    const i32 other = shuffle_xor(sum, 4u);
    if (!inside) continue;
    RoundedBlock& block = row[four / 8];
    const i32 part = four % 8;
    (part < 4 ? block.low : block.high).word[part % 4] = word;
    if (part != 0) continue;
    block.scale = peak / 127;
    block.sums[0] = sum;
    block.sums[1] = other;
  }
  if (a.norm != nullptr) return 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  barrier();
  return 1;
}

// sums[i] += the products of a block of row i with `x`, whose scale is given.
template <Packing p, int count>
GPU_FUNCTION inline void add_products(const RawBlock<p>* raw, const RoundedBlock& x, float x_scale, float* sums) {
  constexpr int kGroups = kBlock / p.group, kWords = 8 / kGroups;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const BlockOfRow<p> weights = unpacked<p>(raw[i]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const i32 x_sum = kGroups == 2 ? x.sums[g] : x.sums[0] + x.sums[1];
      i32 sum = -p.zero * x_sum;
#pragma unroll
      for (int w = g * kWords; w < (g + 1) * kWords; ++w) {
        sum = dot4(weights.codes.word[w], static_cast<i32>(w < 4 ? x.low.word[w] : x.high.word[w - 4]), sum);
      }
      if constexpr (p.minimum) sums[i] = fma(weights.minimums[g] * x_scale, static_cast<float>(x_sum), sums[i]);
      sums[i] = fma(weights.scales[g] * x_scale, static_cast<float>(sum), sums[i]);
    }
  }
}

// What a wave loads next of its rows: a step is kWave blocks of each of `count`.
template <Packing p, int count>
class RowLoader {
 public:
  GPU_FUNCTION RowLoader(const LinearArgs& a, i32 steps)
      : a_(a), steps_(steps), last_(a.columns / kBlock - 1), index_(first_index()) {
    find_rows();
  }

  GPU_FUNCTION void load(RawBlock<p>* to) {
    if (index_ >= a_.waves) return;
    // Lanes past the end read the last block again.
    const i32 block = min_of(step_ * static_cast<i32>(kWave) + static_cast<i32>(lane()), last_);
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = load_raw<p>(rows_[i], block);
    if (++step_ < steps_) return;
    step_ = 0;
    index_ += indices_at_once();
    find_rows();
  }

 private:
  GPU_FUNCTION void find_rows() {
    if (index_ >= a_.waves) return;
    const Rows<count> rows = rows_at<count>(a_, index_);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      rows_[i] = one_row<p>(a_.matrices[rows.matrix[i]], row_to_read(a_, rows, i), last_ + 1);
    }
  }

  const LinearArgs& a_;
  const i32 steps_;
  const i32 last_;
  i32 index_;
  i32 step_ = 0;
  LinearMatrix rows_[count] = {};
};

// Steps of weights that are on their way to a lane: as many as leave registers for two blocks of 512 threads on a
// multiprocessor with 64 Ki of them.
constexpr int steps_ahead(const Packing& p, int count) {
  if (count == 1) return p.bits > 5 ? 3 : 4;
  return p.bits <= 4 && p.high_bits() == 0 && !p.codebook ? 2 : 1;
}

// As many blocks as the device holds at once: each rounds x once, and its waves go from row to row with the next
// weights always on their way. `count`: 1, or 2 with kSiluMul.
template <Packing p, int count>
GPU_FUNCTION inline void linear_one_quantised(const LinearArgs& a) {
  constexpr int kStepsAhead = steps_ahead(p, count);
  GPU_SHARED(RoundedBlock, x, kMaxOneColumns / kBlock);
  const i32 blocks = a.columns / kBlock, steps = (blocks + static_cast<i32>(kWave) - 1) / static_cast<i32>(kWave);
  RowLoader<p, count> loader(a, steps);
  RawBlock<p> coming[kStepsAhead][count] = {};
  // The first weights are on their way while x is still computed by the launch ahead, and then while it is rounded.
#pragma unroll
  for (int i = 0; i < kStepsAhead; ++i) loader.load(coming[i]);
  wait_for_previous();
  const float factor = round_row(a, x);
  float sums[count] = {};
  i32 index = first_index(), block = static_cast<i32>(lane());
  while (index < a.waves) {
#pragma unroll
    for (int i = 0; i < kStepsAhead; ++i) {
      if (index >= a.waves) break;
      const RoundedBlock& part = x[min_of(block, blocks - 1)];
      add_products<p, count>(coming[i], part, block < blocks ? part.scale : 0, sums);
      loader.load(coming[i]);
      block += static_cast<i32>(kWave);
      if (block - static_cast<i32>(lane()) < blocks) continue;
      finish(a, rows_at<count>(a, index), factor, sums);
#pragma unroll
      for (float& sum : sums) sum = 0;
      block = static_cast<i32>(lane());
      index += indices_at_once();
    }
  }
}

// Rows and K are multiples of 16 bytes.
template <class T>
GPU_FUNCTION inline void linear_one_plain(const LinearArgs& a) {
  constexpr int kCount = PlainVector<T>::kCount, kStep = static_cast<int>(kWave) * kCount;
  const i32 index = first_index();
  if (index >= a.waves) return wait_for_previous();
  const Rows<2> pair = rows_at<2>(a, index);
  const u8* rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const LinearMatrix& m = a.matrices[pair.matrix[i]];
    rows[i] = m.low + static_cast<i64>(row_to_read(a, pair, i)) * m.row_step;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const i64 bytes = static_cast<i64>(a.columns) * static_cast<i64>(sizeof(T));
    prefetch(rows[i] + min_of(static_cast<i64>(lane()) * 128, bytes - 1));
  }
  wait_for_previous();
  float sums[2] = {}, squares = 0;
#pragma unroll 4
  for (i32 k = static_cast<i32>(lane()) * kCount; k < a.columns; k += kStep) {
    PlainVector<T> weights[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) weights[i] = load_plain<T>(rows[i] + k * static_cast<i64>(sizeof(T)));
#pragma unroll
    for (int quad = 0; quad < kCount; quad += 4) {
      PlainVector<float> x = load_plain<float>(reinterpret_cast<const u8*>(a.x + k + quad));
      if (a.norm != nullptr) {
        const PlainVector<float> norm = load_plain<float>(reinterpret_cast<const u8*>(a.norm + k + quad));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          squares = fma(x.value[j], x.value[j], squares);
          x.value[j] *= norm.value[j];
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i] = fma(weights[i].value[quad + j], x.value[j], sums[i]);
      }
    }
  }
  // Every wave has seen the whole of x.
  float factor = 1;
  if (a.norm != nullptr) factor = 1 / sqrt(wave_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  finish(a, pair, factor, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_PLAIN(name, T) GPU_EARLY_KERNEL(linear_##name##_1, 256, gabbro::gpu::LinearArgs, linear_one_plain<T>)
#define GABBRO_QUANTISED(name, packing)                                                                            \
  GPU_EARLY_KERNEL(linear_##name##_1, 512, gabbro::gpu::LinearArgs, linear_one_quantised<gabbro::gpu::packing, 1>) \
  GPU_EARLY_KERNEL(linear_##name##_1_paired, 512, gabbro::gpu::LinearArgs,                                         \
                   linear_one_quantised<gabbro::gpu::packing, 2>)

GABBRO_PLAIN(f32, float)
GABBRO_PLAIN(f16, gabbro::gpu::Half)
GABBRO_PLAIN(bf16, gabbro::gpu::BFloat)
GABBRO_FOR_EACH_FORMAT(GABBRO_QUANTISED)
