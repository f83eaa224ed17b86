// Plain weights times one token, bound by memory. A block goes through its rows a group at a time, with the weights of
// the next group always on their way; a thread has the same columns of all of them, and so keeps its part of x in
// registers. Nothing is launched before to prepare x: with an RMSNorm before (y = x·weight / rms(x), Zhang & Sennrich
// 2019) x·weight is multiplied, and 1 / rms(x) is applied at the end.
#include "kernels/gpu/matrix.h"
#include "kernels/linear/codes.h"
#include "kernels/linear/linear_finish.h"
#include "kernels/linear/plain.h"

namespace gabbro::gpu::GABBRO_GPU {

// Elements of x, times the norm's weights where there are some. Adds the squares of x.
template <int count>
GPU_FUNCTION inline void load_activations(const LinearArgs& a, i32 first, float* values, float& squares) {
#pragma unroll
  for (int vec = 0; vec < count / 4; ++vec) {
    const Vec16 bits = load_vec16(a.x + first + vec * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[vec * 4 + i] = bits_to_float(bits.word[i]);
  }
  if (a.norm == nullptr) return;
#pragma unroll
  for (int vec = 0; vec < count / 4; ++vec) {
    const Vec16 weights = load_vec16(a.norm + first + vec * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& value = values[vec * 4 + i];
      squares = fma(value, value, squares);
      value *= bits_to_float(weights.word[i]);
    }
  }
}

// Reads of weights: a thread reads chunks of kColumns columns of a row; kChunks of them are in flight.
// Rows, and their number of columns, are multiples of 16 bytes. `Part` is x for the columns of a chunk; without a
// value, all products are zero.
template <class T>
struct PlainWeights {
  static constexpr int kColumns = PlainVector<T>::kCount;
  static constexpr int kChunks = 8;

  struct Part {
    float value[kColumns] = {};
  };

  GPU_FUNCTION static const u8* place(const LinearMatrix& m, i32 row, i32 chunk) {
    return m.low + row * m.row_step + chunk * i64{16};
  }
  GPU_FUNCTION static Part part(const LinearArgs& a, i32 chunk, float& squares) {
    Part part;
    load_activations<kColumns>(a, chunk * kColumns, part.value, squares);
    return part;
  }
  GPU_FUNCTION static float dot(const Vec16& raw, const Part& x) {
    const PlainVector<T> weights = plain_of<T>(raw);
    float result = 0;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) result = fma(weights.value[i], x.value[i], result);
    return result;
  }
};

// The sums over the wave of `count` values each, a power of two: a lane gets that of value lane() / (kWave / count).
template <int count>
GPU_FUNCTION inline float wave_sums(float (&values)[count]) {
  u32 step = kWave / 2;
#pragma unroll
  for (int left = count / 2; left > 0; left /= 2, step /= 2) {
    const bool upper = (lane() & step) != 0;
#pragma unroll
    for (int i = 0; i < left; ++i) {
      const float own = upper ? values[i + left] : values[i], other = upper ? values[i] : values[i + left];
      values[i] = own + shuffle_xor(other, step);
    }
  }
  for (; step > 0; step /= 2) values[0] += shuffle_xor(values[0], step);
  return values[0];
}

// Rows of a decode step per thread: `row_threads` go over a row together, each with `slots` chunks of it; as many rows
// as fit are handled at once.
struct OnePlace {
  i32 row;    // of those at once
  i32 count;  // of them; a thread whose row is not below it has nothing to multiply
  i32 chunk;  // of slot 0; the others are row_threads apart
};
GPU_FUNCTION inline OnePlace one_place(i32 row_threads) {
  const i32 thread = static_cast<i32>(thread_index());
  return {thread / row_threads, static_cast<i32>(block_size()) / row_threads, thread % row_threads};
}

// A group of neighboring rows of a matrix (with kSiluMul: of both).
struct RowGroup {
  int matrix;
  i32 first;  // row
};
GPU_FUNCTION inline i32 groups_of(const LinearMatrix& m, i32 group_rows) {
  return (m.rows + group_rows - 1) / group_rows;
}
template <bool paired>
GPU_FUNCTION inline RowGroup group_at(const LinearArgs& a, i32 index, i32 group_rows) {
  int matrix = 0;
  if constexpr (!paired) {
    while (index >= groups_of(a.matrices[matrix], group_rows)) index -= groups_of(a.matrices[matrix++], group_rows);
  }
  return {matrix, index * group_rows};
}

// `count` chunks that are on their way to a thread: into its registers, or into the block's memory where copies go past
// the registers. These are then free for a second block on the multiprocessor.
template <int count, bool in_memory = kCopiesPassRegisters>
class ChunksAhead {
 public:
  struct Memory {};

  GPU_FUNCTION explicit ChunksAhead(Memory&) {}
  GPU_FUNCTION void begin(int i, const void* from) { chunks_[i] = load_vec16(from); }
  GPU_FUNCTION void sent() {}
  template <int later>
  GPU_FUNCTION void landed() {}
  GPU_FUNCTION Vec16 chunk(int i) const { return chunks_[i]; }

 private:
  Vec16 chunks_[count];
};
template <int count>
class ChunksAhead<count, true> {
 public:
  struct Memory {
    Vec16 chunks[count][kOneThreads];  // each thread reads only its own
  };

  GPU_FUNCTION explicit ChunksAhead(Memory& memory) : memory_(memory) {}
  GPU_FUNCTION void begin(int i, const void* from) { copy_.begin(i, &memory_.chunks[i][thread_index()], from, true); }
  GPU_FUNCTION void sent() { copy_.sent(); }
  template <int later>
  GPU_FUNCTION void landed() {
    copy_.template landed<later>();
  }
  GPU_FUNCTION Vec16 chunk(int i) const { return memory_.chunks[i][thread_index()]; }

 private:
  Memory& memory_;
  TileCopy<count> copy_;
};

// The weights of a group that are on their way to a thread.
template <class Weights, bool paired, int slots>
class GroupWeights {
 public:
  static constexpr int kRows = Weights::kChunks / slots;  // of all matrices, that a thread has in a group
  using Chunks = ChunksAhead<Weights::kChunks>;

  GPU_FUNCTION GroupWeights(const LinearArgs& a, const OnePlace& place, typename Chunks::Memory& memory)
      : a_(a), place_(place), chunks_(memory) {}

  GPU_FUNCTION void aim(const RowGroup& group) { group_ = group; }

  GPU_FUNCTION void load(int row) {
    const LinearMatrix& m = a_.matrices[paired ? row % 2 : group_.matrix];
    const i32 at = min_of(group_.first + (paired ? row / 2 : row) * place_.count + place_.row, m.rows - 1);
#pragma unroll
    for (int s = 0; s < slots; ++s) {
      const i32 chunk = min_of(place_.chunk + s * a_.row_threads, a_.columns / Weights::kColumns - 1);
      chunks_.begin(row * slots + s, Weights::place(m, at, chunk));
    }
  }
  GPU_INLINE void load_all() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      load(row);
      sent();
    }
  }
  // To be called after each row, also where there is no more to load.
  GPU_FUNCTION void sent() { chunks_.sent(); }

  GPU_FUNCTION float dot(int row, const typename Weights::Part* x) {
    chunks_.template landed<kRows - 1>();
    float sum = 0;
#pragma unroll
    for (int s = 0; s < slots; ++s) sum += Weights::dot(chunks_.chunk(row * slots + s), x[s]);
    return sum;
  }

 private:
  const LinearArgs& a_;
  const OnePlace& place_;
  RowGroup group_{};
  Chunks chunks_;
};

// The summand of a row's product: bias and residual.
GPU_FUNCTION inline float addend(const LinearArgs& a, int matrix, i32 row) {
  const LinearMatrix& m = a.matrices[matrix];
  float sum = m.bias != nullptr ? m.bias[row] : 0;
  if (a.epilogue == Epilogue::kAdd) sum += a.residual[row];
  return sum;
}

inline constexpr int kOneWaves = kOneThreads / static_cast<int>(kWave);

// Memory of a block: 65 KB, so that two blocks fit on a multiprocessor (backends/gpu/cuda/api_cuda.cc).
template <class Weights>
struct OneMemory {
  typename ChunksAhead<Weights::kChunks>::Memory weights;
  float parts[2][Weights::kChunks][kOneWaves];  // of the products of two groups: [row][wave]

  // The squares of x of each wave, until the second group's products come.
  GPU_FUNCTION float* squares() { return parts[1][0]; }
};

GPU_FUNCTION inline float sum_of_waves(const float* parts, i32 waves) {
  float sum = 0;
#pragma unroll
  for (i32 w = 0; w < kOneWaves; ++w) sum += w < waves ? parts[w] : 0;
  return sum;
}

// A thread's activations. Adds their squares.
template <class Weights, int slots>
GPU_INLINE inline void load_parts(const LinearArgs& a, i32 first_chunk, bool multiplies,
                                  typename Weights::Part (&x)[slots], float& squares) {
#pragma unroll
  for (int s = 0; s < slots; ++s) {
    const i32 chunk = first_chunk + s * a.row_threads;
    if (multiplies && chunk < a.columns / Weights::kColumns) x[s] = Weights::part(a, chunk, squares);
  }
}

// Products of a group's rows, to parts [row][wave]. With `more`, asks for the rows of the next group, at which the
// weights are aimed.
template <class Weights, class Group>
GPU_INLINE inline void multiply_group(Group& weights, const typename Weights::Part* x, bool more,
                                      float (*parts)[kOneWaves]) {
  constexpr int kRows = Group::kRows;
  float sums[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    sums[row] = weights.dot(row, x);
    if (more) weights.load(row);
    weights.sent();
  }
  const float sum = wave_sums<kRows>(sums);
  constexpr u32 kSumLanes = kWave / kRows;
  if (lane() % kSumLanes == 0) parts[lane() / kSumLanes][wave_index()] = sum;
}

// As many blocks as the device holds at once.
template <class Weights, bool paired, int slots>
GPU_FUNCTION inline void linear_one_plain(const LinearArgs& a) {
  using Group = GroupWeights<Weights, paired, slots>;
  constexpr int kRows = Group::kRows, kMatrices = paired ? 2 : 1;
  auto& memory = block_memory<OneMemory<Weights>>();
  const OnePlace place = one_place(a.row_threads);
  const bool multiplies = place.row < place.count;
  const i32 group_rows = kRows / kMatrices * place.count;
  i32 groups = 0, index = static_cast<i32>(block_index().x);
  for (int m = 0; m < (paired ? 1 : a.count); ++m) groups += groups_of(a.matrices[m], group_rows);
  if (index >= groups) return;

  // The first weights are on their way while x is still computed by the launch ahead.
  Group weights(a, place, memory.weights);
  weights.aim(group_at<paired>(a, index, group_rows));
  if (multiplies) weights.load_all();
  wait_for_previous();
  typename Weights::Part x[slots];
  float squares = 0;
  load_parts<Weights>(a, place.chunk, multiplies, x, squares);
  if (a.norm != nullptr) {
    squares = wave_sum(squares);
    if (lane() == 0) memory.squares()[wave_index()] = squares;
  }
  const i32 row_waves = a.row_threads / static_cast<i32>(kWave);
  const i32 own_row = static_cast<i32>(thread_index());  // of the group, for the threads that finish its rows
  float factor = a.norm == nullptr ? 1.0f : -1;          // -1: not known yet
  int turn = 0;
  while (index < groups) {
    const RowGroup group = group_at<paired>(a, index, group_rows);
    const bool finishes = own_row < group_rows && group.first + own_row < a.matrices[group.matrix].rows;
    float addends[kMatrices] = {};
    if (finishes) {
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) addends[m] = addend(a, paired ? m : group.matrix, group.first + own_row);
    }
    index += static_cast<i32>(grid_size().x);
    const bool more = index < groups;
    if (more) weights.aim(group_at<paired>(a, index, group_rows));
    if (multiplies) multiply_group<Weights>(weights, x, more, memory.parts[turn]);
    barrier();
    if (factor < 0) {
      // With a norm the sums are products of x·weight so far; the waves of the first row have all squares.
      factor = 1 / sqrt(sum_of_waves(memory.squares(), row_waves) / static_cast<float>(a.columns) + a.epsilon);
      if (more) barrier();
    }
    if (finishes) {
      // Row i·count + r of the group is the i-th of those that the waves of row r have.
      const i32 first_wave = own_row % place.count * row_waves;
      float values[kMatrices];
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        const float* parts = memory.parts[turn][own_row / place.count * kMatrices + m] + first_wave;
        values[m] = sum_of_waves(parts, row_waves) * factor + addends[m];
      }
      a.matrices[group.matrix].y[group.first + own_row] = paired ? silu(values[0]) * values[kMatrices - 1] : values[0];
    }
    turn ^= 1;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ONE(name, T, slots, paired)                                                                          \
  GPU_EARLY_MEMORY_KERNEL(                                                                                          \
      name, gabbro::gpu::kOneThreads, gabbro::gpu::GABBRO_GPU::OneMemory<gabbro::gpu::GABBRO_GPU::PlainWeights<T>>, \
      gabbro::gpu::LinearArgs, linear_one_plain<gabbro::gpu::GABBRO_GPU::PlainWeights<T>, paired, slots>)
#define GABBRO_SLOTS(name, T, slots)                     \
  GABBRO_ONE(linear_##name##_1_##slots, T, slots, false) \
  GABBRO_ONE(linear_##name##_1_##slots##_paired, T, slots, true)
#define GABBRO_PLAIN(name, T) \
  GABBRO_SLOTS(name, T, 1)    \
  GABBRO_SLOTS(name, T, 2)    \
  GABBRO_SLOTS(name, T, 4)

GABBRO_PLAIN(f32, float)
GABBRO_PLAIN(f16, gabbro::gpu::Half)
GABBRO_PLAIN(bf16, gabbro::gpu::BFloat)
