// Results of a tile of conv_halo.cc, with what is added to them, and partial sums of splits.
#pragma once

#include "kernels/conv/halo_tile.h"

#ifdef GABBRO_LARGE_BLOCKS
namespace gabbro::gpu::GABBRO_GPU {

// Transposes words between four lanes: word j of lane i goes to lane j as word i.
GPU_FUNCTION inline void transpose_words(u32 (&word)[4]) {
  const bool odd = lane() % 2 != 0, upper = lane() / 2 % 2 != 0;
  const auto swap = [](u32& first, u32& second, bool second_stays, u32 step) {
    const u32 other = shuffle_xor(second_stays ? first : second, step);
    first = second_stays ? other : first;
    second = second_stays ? second : other;
  };
  swap(word[0], word[1], odd, 1);
  swap(word[2], word[3], odd, 1);
  swap(word[0], word[2], upper, 2);
  swap(word[1], word[3], upper, 2);
}

// Results of rows whose outputs are whole vectors of eight, for sums in the layout of mma.sync, where four lanes have
// pairs of neighboring columns: a lane stores eight outputs of a pixel.
template <class T, int columns>
GPU_FUNCTION inline void store_vectors(const ConvNhwcArgs& a, const HaloTile& tile, const float* addend,
                                       const HaloSums<columns>& sums) {
  constexpr int kGroups = columns / 8 < 4 ? columns / 8 : 4;  // of eight columns, which four lanes exchange
#pragma unroll
  for (int r = 0; r < HaloShare::kRows; ++r) {
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      const i32 y = tile.y + HaloShare::y(r, 2 * slot), x = tile.x + HaloShare::x(r, 2 * slot);
      const bool is_pixel = y < a.window.out[1] && x < a.window.out[2];
      const i64 pixel = (static_cast<i64>(tile.image) * a.window.out[1] + y) * a.window.out[2] + x;
      const auto own = static_cast<i32>(lane() % 4);
      const i64 at_first = pixel * a.outputs + tile.output + own * 8;  // of the eight outputs that this lane stores
      const auto stores_from = [&](int first) {
        return is_pixel && own < kGroups && tile.output + first + own * 8 < a.outputs;
      };
      Vec16 residuals[columns / (8 * kGroups)] = {};
      if (a.residual != nullptr) {
#pragma unroll
        for (int first = 0; first < columns; first += 8 * kGroups) {
          if (stores_from(first))
            residuals[first / (8 * kGroups)] = load_vec16(static_cast<const T*>(a.residual) + at_first + first);
        }
      }
#pragma unroll
      for (int first = 0; first < columns; first += 8 * kGroups) {
        const bool stores = stores_from(first);
        Vec16& added = residuals[first / (8 * kGroups)];
        if (a.residual != nullptr) transpose_words(added.word);
        Vec16 result = {};
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          const int column = first + g * 8;
          const float* const sum = sums[r][column / static_cast<int>(kTile)].value + column % 16 / 8 * 4 + slot * 2;
          const FloatPair pair = *reinterpret_cast<const FloatPair*>(addend + column + 2 * own);
          const float more[2] = {to_float(T{static_cast<u16>(added.word[g])}),
                                 to_float(T{static_cast<u16>(added.word[g] >> 16)})};
          result.word[g] = pack<T>(sum[0] + pair.a + more[0], sum[1] + pair.b + more[1]);
        }
        transpose_words(result.word);
        if (stores) store_vec16(static_cast<T*>(a.y) + at_first + first, result);
      }
    }
  }
}

// Partial sums of a split whose outputs are an even number, for sums with pairs of neighboring columns.
template <int columns>
GPU_FUNCTION inline void store_partials(const ConvNhwcArgs& a, const HaloTile& tile, const HaloSums<columns>& sums) {
#pragma unroll
  for (int r = 0; r < HaloShare::kRows; ++r) {
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      const i32 y = tile.y + HaloShare::y(r, 2 * slot), x = tile.x + HaloShare::x(r, 2 * slot);
      if (y >= a.window.out[1] || x >= a.window.out[2]) continue;
      const i64 pixel = (static_cast<i64>(tile.image) * a.window.out[1] + y) * a.window.out[2] + x;
      const i32 output = tile.output + static_cast<i32>(lane() % 4 * 2);
      float* const to = a.partials + (static_cast<i64>(block_index().y) * a.pixels + pixel) * a.outputs + output;
#pragma unroll
      for (int column = 0; column < columns; column += 8) {
        const float* const sum = sums[r][column / static_cast<int>(kTile)].value + column % 16 / 8 * 4 + slot * 2;
        if (output + column < a.outputs) *reinterpret_cast<FloatPair*>(to + column) = {sum[0], sum[1]};
      }
    }
  }
}

// Results of any outputs, or the partial sums of a split.
template <class T, int columns>
GPU_FUNCTION inline void store_elements(const ConvNhwcArgs& a, const HaloTile& tile, const float* addend,
                                        const HaloSums<columns>& sums) {
#pragma unroll
  for (int r = 0; r < HaloShare::kRows; ++r) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const i32 y = tile.y + HaloShare::y(r, i), x = tile.x + HaloShare::x(r, i);
      if (y >= a.window.out[1] || x >= a.window.out[2]) continue;
      const i64 pixel = (static_cast<i64>(tile.image) * a.window.out[1] + y) * a.window.out[2] + x;
#pragma unroll
      for (int o = 0; o < columns / static_cast<int>(kTile); ++o) {
        const i32 column = o * static_cast<i32>(kTile) + static_cast<i32>(column_of(i)), output = tile.output + column;
        if (output >= a.outputs) continue;
        const i64 at = pixel * a.outputs + output;
        const float sum = sums[r][o].value[i];
        if (a.splits > 1) {
          a.partials[static_cast<i64>(block_index().y) * a.pixels * a.outputs + at] = sum;
          continue;
        }
        const float more = a.residual != nullptr ? to_float(static_cast<const T*>(a.residual)[at]) : 0.0f;
        static_cast<T*>(a.y)[at] = from_float<T>(sum + addend[column] + more);
      }
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
#endif
