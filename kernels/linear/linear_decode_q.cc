// Quantized weights times one token, bound by memory: a wave a row, or with kSiluMul one of both matrices. Nothing is
// launched before to prepare x: each block keeps the whole of it, rounded, and with an RMSNorm before (y = x·weight /
// rms(x), Zhang & Sennrich 2019) x·weight is multiplied, and 1 / rms(x) is applied at the end. Waves that go
// through their rows each for itself are faster here than blocks that do it together, as for plain weights: unpacking
// keeps them busy, and a barrier would have them do it all at the same time.
#include "kernels/linear/linear_finish.h"
#include "kernels/linear/rounded_row.h"

namespace gabbro::gpu::GABBRO_GPU {

// The rows that a wave handles together: one, or with kSiluMul, where `count` is two, the same row of both matrices.
template <int count>
struct Rows {
  int matrix[count];
  i32 row[count];
};

// Row number `index` of all matrices.
template <int count>
GPU_FUNCTION inline Rows<count> rows_at(const LinearArgs& a, i32 index) {
  if constexpr (count == 2) {
    return {{0, 1}, {index, index}};
  } else {
    int matrix = 0;
    while (index >= a.matrices[matrix].rows) index -= a.matrices[matrix++].rows;
    return {{matrix}, {index}};
  }
}

GPU_FUNCTION inline i32 first_index() {
  return static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
}
GPU_FUNCTION inline i32 indices_at_once() { return static_cast<i32>(grid_size().x * (block_size() / kWave)); }

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
    if (m.bias != nullptr) values[i] += m.bias[rows.row[i]];
  }
  float* y = a.matrices[rows.matrix[0]].y;
  if constexpr (count == 2) {
    y[rows.row[0]] = silu(values[0]) * values[1];
  } else {
    y[rows.row[0]] = a.epilogue == Epilogue::kAdd ? values[0] + a.residual[rows.row[0]] : values[0];
  }
}

// Loads a wave's rows step by step: a step is kWave blocks of each of `count` rows.
template <Packing p, int count>
class RowLoader {
 public:
  GPU_FUNCTION explicit RowLoader(const LinearArgs& a)
      : a_(a), last_(a.columns / kBlock - 1), steps_(last_ / static_cast<i32>(kWave) + 1), index_(first_index()) {
    find_rows();
  }

  GPU_FUNCTION void load(RawBlock<p>* to) {
    if (index_ >= a_.waves) return;
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = load_raw<p>(rows_[i], block());
    advance();
  }

  GPU_FUNCTION i32 blocks() const { return last_ + 1; }

 private:
  // Lanes past the end read the last block again.
  GPU_FUNCTION i32 block() const { return min_of(step_ * static_cast<i32>(kWave) + static_cast<i32>(lane()), last_); }

  GPU_FUNCTION void advance() {
    if (++step_ < steps_) return;
    step_ = 0;
    index_ += indices_at_once();
    find_rows();
  }

  GPU_FUNCTION void find_rows() {
    if (index_ >= a_.waves) return;
    const Rows<count> rows = rows_at<count>(a_, index_);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      rows_[i] = one_row<p>(a_.matrices[rows.matrix[i]], rows.row[i], last_ + 1);
    }
  }

  const LinearArgs& a_;
  const i32 last_;
  const i32 steps_;
  i32 index_;
  i32 step_ = 0;
  LinearMatrix rows_[count] = {};
};

// As large as can be, since every block rounds x. With kFewRegisters 1024 threads would have 64 registers each, too few
// for most pairs of rows.
inline constexpr int kBlockThreads = kFewRegisters ? 512 : 1024;

// Steps of weights that are on their way to a lane: as many as leave registers for a block of 1024 threads on a
// multiprocessor with 64 Ki of them.
constexpr int steps_ahead(const Packing& p, int count) {
  if (count == 1) return p.bits > 5 ? 3 : 4;
  return p.bits <= 4 && p.high_bits() == 0 && !p.codebook ? 2 : 1;
}

// As many blocks as the device holds at once: each rounds x once, and its waves go from row to row with the next
// weights always on their way; the first of them while x is still computed by the launch ahead, and then rounded.
// `count`: 1, or 2 with kSiluMul.
template <Packing p, int count>
GPU_FUNCTION inline void linear_one_quantized(const LinearArgs& a) {
  constexpr int kStepsAhead = steps_ahead(p, count);
  using Block = typename TokenBlock<p.e4m3>::Type;
  GPU_SHARED(Block, x, kMaxOneColumns / kBlock);
  RowLoader<p, count> loader(a);
  RawBlock<p> coming[kStepsAhead][count] = {};
#pragma unroll
  for (int i = 0; i < kStepsAhead; ++i) loader.load(coming[i]);
  wait_for_previous();
  const float factor = round_row({a.x, a.norm, a.columns, a.epsilon}, x);
  float sums[count] = {};
  i32 index = first_index(), block = static_cast<i32>(lane());
  while (index < a.waves) {
#pragma unroll
    for (int i = 0; i < kStepsAhead; ++i) {
      if (index >= a.waves) break;
      const Block& part = x[min_of(block, loader.blocks() - 1)];
      add_products<p, count>(coming[i], part, block < loader.blocks() ? part.scale : 0, sums);
      loader.load(coming[i]);
      block += static_cast<i32>(kWave);
      if (block - static_cast<i32>(lane()) < loader.blocks()) continue;
      finish(a, rows_at<count>(a, index), factor, sums);
#pragma unroll
      for (float& sum : sums) sum = 0;
      block = static_cast<i32>(lane());
      index += indices_at_once();
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_QUANTIZED(name)                                                                                \
  GPU_EARLY_KERNEL(linear_##name##_1, gabbro::gpu::GABBRO_GPU::kBlockThreads, gabbro::gpu::LinearArgs,        \
                   linear_one_quantized<GABBRO_PACKING(name), 1>)                                             \
  GPU_EARLY_KERNEL(linear_##name##_1_paired, gabbro::gpu::GABBRO_GPU::kBlockThreads, gabbro::gpu::LinearArgs, \
                   linear_one_quantized<GABBRO_PACKING(name), 2>)

GABBRO_FOR_EACH_FORMAT(GABBRO_QUANTIZED)
