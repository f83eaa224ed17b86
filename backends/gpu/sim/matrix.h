// The vocabulary of matrix cores (kernels/gpu/matrix.h) for the simulator. With 32 lanes fragments and sums have the
// layout of mma.sync, with 64 that of MFMA.
#pragma once

#include <cstring>

#include "backends/gpu/sim/block.h"
#include "backends/gpu/sim/gpu.h"
#include "kernels/gpu/gpu.h"
#include "kernels/gpu/register_copy.h"
#include "src/base/half.h"

#define GABBRO_MATRIX_CORES
#define GABBRO_LARGE_BLOCKS

namespace gabbro::gpu::GABBRO_GPU {

// Elements of a fragment, and sums, of a lane.
inline constexpr int kFragmentElements = 256 / kWave;

struct Fragment {
  u16 half[kFragmentElements];
};
using Columns = Fragment;

struct Accumulator {
  static constexpr int kCount = 256 / kWave;
  float value[kCount] = {};
};

// Position of lane `l`'s element or sum `i`.
constexpr u32 tile_row(u32 l, int i) { return kWave == 32 ? l / 4 + static_cast<u32>(i / 2 % 2) * 8 : l % 16; }
constexpr u32 tile_column(u32 l, int i) {
  return kWave == 32 ? static_cast<u32>(i / 4 * 8 + i % 2) + l % 4 * 2 : l / 16 * 4 + static_cast<u32>(i);
}

inline constexpr bool kColumnPairs = true;
inline constexpr int kRowSlots = kWave == 32 ? 2 : 1;
constexpr int row_slot(int i) { return kWave == 32 ? i / 2 % 2 : 0; }
inline u32 row_of(int i) { return tile_row(lane(), i); }
inline u32 column_of(int i) { return tile_column(lane(), i); }
inline constexpr u32 kRowSteps[] = {kWave == 32 ? 1u : 16u, kWave == 32 ? 2u : 32u};
inline float row_max(float x) {
  for (const u32 step : kRowSteps) x = max_of(x, shuffle_xor(x, step));
  return x;
}
inline float row_sum(float x) {
  for (const u32 step : kRowSteps) x += shuffle_xor(x, step);
  return x;
}

inline Fragment load_fragment(const Half* tile, u32 pitch) {
  Fragment f;
  for (int i = 0; i < kFragmentElements; ++i) f.half[i] = tile[row_of(i) * pitch + column_of(i)].bits;
  return f;
}
inline Columns load_columns(const Half* tile, u32 pitch) { return load_fragment(tile, pitch); }
inline constexpr bool kLoadsTranspose = kWave == 32;
inline void hold_loads() {}
inline Columns load_transposed(const Half* tile, u32 pitch) {
  if constexpr (!kLoadsTranspose) return load_columns(tile, pitch);
  Fragment f;
  for (int i = 0; i < kFragmentElements; ++i) f.half[i] = tile[column_of(i) * pitch + row_of(i)].bits;
  return f;
}

// In the order of `half`, the elements of a lane's rows take turns in pairs.
inline constexpr int kLaneRows = kRowSlots, kLaneDepth = 4, kDepthLanes = 4;
inline u32 lane_row(int i) { return kWave == 32 ? lane() / 4 + static_cast<u32>(i) * 8 : lane() % 16; }
inline u32 lane_part() { return kWave == 32 ? lane() % 4 : lane() / 16; }
template <int words>
inline Fragment fragment_of(const u32 (&rows)[kLaneRows][words], int first) {
  Fragment f;
  for (int i = 0; i < kFragmentElements; ++i) {
    const u32 word = rows[row_slot(i)][first + i / (2 * kLaneRows)];
    f.half[i] = static_cast<u16>(word >> (i % 2 * 16));
  }
  return f;
}
template <int words>
inline Columns columns_of(const u32 (&columns)[kLaneRows][words], int first) {
  return fragment_of(columns, first);
}

// All of a fragment of `T`, in every lane: values[row][k].
template <class T>
inline void gather(const Fragment& f, float (*values)[16], const char* file, int line) {
  for (int first = 0; first < kFragmentElements; first += 4) {
    u64 bits = 0;
    std::memcpy(&bits, f.half + first, sizeof bits);
    const u64* all = sim::exchange(bits, {file, line});
    for (u32 l = 0; l < kWave; ++l) {
      for (int i = 0; i < 4; ++i) {
        values[tile_row(l, first + i)][tile_column(l, first + i)] = to_float(T{static_cast<u16>(all[l] >> (16 * i))});
      }
    }
  }
}

template <class T = Half>
inline void multiply(const Fragment& a, const Columns& b, Accumulator& sums, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  float first[16][16], second[16][16];
  gather<T>(a, first, file, line);
  gather<T>(b, second, file, line);
  for (int i = 0; i < Accumulator::kCount; ++i) {
    for (int k = 0; k < 16; ++k) sums.value[i] = fma(first[row_of(i)][k], second[column_of(i)][k], sums.value[i]);
  }
}

template <class T = Half>
inline Fragment to_fragment(const Accumulator& sums) {
  Fragment f;
  for (int i = 0; i < kFragmentElements; ++i) f.half[i] = from_float<T>(sums.value[i]).bits;
  return f;
}

inline u32 pack_f16x2(float x, float y) {
  return float_to_half_bits(x) | static_cast<u32>(float_to_half_bits(y)) << 16;
}
inline u32 pack_bfloats(float x, float y) { return to_bfloat(x).bits | static_cast<u32>(to_bfloat(y).bits) << 16; }
template <class T>
inline u32 pack(float x, float y) {
  return kIsBFloat<T> ? pack_bfloats(x, y) : pack_f16x2(x, y);
}
// A product of two f16 values has 22 bits: all but the last rounding is exact in double precision.
inline u32 fma_f16x2(u32 a, u32 b, u32 c) {
  const auto half = [](u32 pair, int shift) { return double{half_bits_to_float(static_cast<u16>(pair >> shift))}; };
  const auto sum = [&](int shift) { return static_cast<float>(half(a, shift) * half(b, shift) + half(c, shift)); };
  return pack_f16x2(sum(0), sum(16));
}
inline u32 add_f16x2(u32 a, u32 b) { return fma_f16x2(a, 0x3c003c00, b); }
inline void spread_bytes(u32 word, u32* f16) {
  for (int i = 0; i < 2; ++i) {
    f16[i] = 0x64006400 | (word >> (16 * i) & 0xff) | (word >> (16 * i + 8) & 0xff) << 16;
  }
}

template <int count>
using TileCopy = RegisterCopy<count>;
template <int count, u32 pitch>
using TransposedCopy = RegisterCopy<count, kLoadsTranspose ? 0 : pitch>;

}  // namespace gabbro::gpu::GABBRO_GPU
