// Rows of 16-byte packs, read once and kept in registers by the threads of a wave or of a block.
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
struct alignas(16) RowPack {
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
  if constexpr (team == RowTeam::kOneWave)
    return static_cast<i64>(block_index().x) * (block_size() / kWave) + wave_index();
  return block_index().x;
}

// A thread's packs of a row: at most kPacks, each a team's size behind the one before.
template <class T, RowTeam team, int kPacks>
class RowShare {
 public:
  static constexpr i32 kElements = RowPack<T>::kElements;

  // The row begins at a multiple of 16 bytes, and its columns are whole packs, at most kPacks for each of the team.
  GPU_FUNCTION RowShare(const T* row, i32 columns) : packs_(columns / kElements) {
    const auto* from = reinterpret_cast<const RowPack<T>*>(row);
    RowPack<T> packs[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) < packs_) packs[p] = from[place(p)];
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) values_[p][e] = place(p) < packs_ ? to_float(packs[p].value[e]) : 0;
    }
  }

  // Adds a row of `addend`, which begins at a multiple of 16 bytes as the row of `sum` does, where the rounded sum
  // goes.
  GPU_FUNCTION void add(const T* addend, T* sum) {
    const auto* from = reinterpret_cast<const RowPack<T>*>(addend);
    auto* to = reinterpret_cast<RowPack<T>*>(sum);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) >= packs_) continue;
      RowPack<T> pack = from[place(p)];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        pack.value[e] = from_float<T>(values_[p][e] + to_float(pack.value[e]));
        values_[p][e] = to_float(pack.value[e]);
      }
      to[place(p)] = pack;
    }
  }

  // body(value) for each element, which it may change.
  template <class Body>
  GPU_FUNCTION void for_each(Body body) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) >= packs_) continue;
#pragma unroll
      for (int e = 0; e < kElements; ++e) body(values_[p][e]);
    }
  }

  // Element e of the pack that begins at column c becomes of_pack(c)(value, e).
  template <class OfPack>
  GPU_FUNCTION void store(T* row, OfPack of_pack) const {
    auto* to = reinterpret_cast<RowPack<T>*>(row);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) >= packs_) continue;
      const auto result = of_pack(place(p) * kElements);
      RowPack<T> pack;
#pragma unroll
      for (int e = 0; e < kElements; ++e) pack.value[e] = from_float<T>(result(values_[p][e], e));
      to[place(p)] = pack;
    }
  }

 private:
  GPU_FUNCTION static i32 place(int p) {
    if constexpr (team == RowTeam::kOneWave) return static_cast<i32>(lane() + static_cast<u32>(p) * kWave);
    return static_cast<i32>(thread_index() + static_cast<u32>(p) * block_size());
  }

  i32 packs_;
  float values_[kPacks][kElements];
};

}  // namespace gabbro::gpu::GABBRO_GPU
