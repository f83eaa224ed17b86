// Rows of 16-byte vectors, read once and kept in registers by the threads of a wave or of a block.
#pragma once

#include "kernels/gpu/flat_grid.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
struct alignas(16) RowVector {
  static constexpr i32 kElements = 16 / sizeof(T);
  T value[kElements];
};

// Threads that share a row.
enum class RowTeam { kOneWave, kBlock };

template <RowTeam team>
GPU_FUNCTION inline float team_sum(float value) {
  if constexpr (team == RowTeam::kOneWave) return wave_sum(value);
  return block_sum(value);
}
template <RowTeam team>
GPU_FUNCTION inline float team_max(float value) {
  if constexpr (team == RowTeam::kOneWave) return wave_max(value);
  return block_max(value);
}
template <RowTeam team>
GPU_FUNCTION inline i64 team_row() {
  if constexpr (team == RowTeam::kOneWave) return flat_block() * (block_size() / kWave) + wave_index();
  return flat_block();
}

// The vectors of a row that one thread holds: at most kVectors, with the team's size as the step between them.
template <class T, RowTeam team, int kVectors>
class RowShare {
 public:
  static constexpr i32 kElements = RowVector<T>::kElements;

  // The row is 16-byte aligned and consists of whole vectors, at most kVectors per thread of the team.
  GPU_FUNCTION RowShare(const T* row, i32 columns) : vectors_(columns / kElements) {
    const auto* from = reinterpret_cast<const RowVector<T>*>(row);
    RowVector<T> vectors[kVectors];
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
      if (index(p) < vectors_) vectors[p] = from[index(p)];
    }
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) values_[p][e] = index(p) < vectors_ ? to_float(vectors[p].value[e]) : 0;
    }
  }

  // Adds the row `addend` and stores the rounded sum in the row `sum`; both are 16-byte aligned.
  GPU_FUNCTION void add(const T* addend, T* sum) {
    const auto* from = reinterpret_cast<const RowVector<T>*>(addend);
    auto* to = reinterpret_cast<RowVector<T>*>(sum);
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
      if (index(p) >= vectors_) continue;
      RowVector<T> vector = from[index(p)];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        vector.value[e] = from_float<T>(values_[p][e] + to_float(vector.value[e]));
        values_[p][e] = to_float(vector.value[e]);
      }
      to[index(p)] = vector;
    }
  }

  // Calls body(value) for each element; it may change the value.
  template <class Body>
  GPU_FUNCTION void for_each(Body body) {
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
      if (index(p) >= vectors_) continue;
#pragma unroll
      for (int e = 0; e < kElements; ++e) body(values_[p][e]);
    }
  }

  // Stores of_vector(c)(value, e) as element e of the vector that begins at column c.
  template <class OfVector>
  GPU_FUNCTION void store(T* row, OfVector of_vector) const {
    auto* to = reinterpret_cast<RowVector<T>*>(row);
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
      if (index(p) >= vectors_) continue;
      const auto result = of_vector(index(p) * kElements);
      RowVector<T> vector;
#pragma unroll
      for (int e = 0; e < kElements; ++e) vector.value[e] = from_float<T>(result(values_[p][e], e));
      to[index(p)] = vector;
    }
  }

 private:
  GPU_FUNCTION static i32 index(int p) {
    if constexpr (team == RowTeam::kOneWave) return static_cast<i32>(lane() + static_cast<u32>(p) * kWave);
    return static_cast<i32>(thread_index() + static_cast<u32>(p) * block_size());
  }

  i32 vectors_;
  float values_[kVectors][kElements];
};

}  // namespace gabbro::gpu::GABBRO_GPU
