// How conv_halo.cc stores pixels and weights in a block's memory, and which pixels a wave makes.
#pragma once

#include "kernels/conv/conv_halo.h"
#include "kernels/gpu/matrix.h"

#ifdef GABBRO_LARGE_BLOCKS
namespace gabbro::gpu::GABBRO_GPU {

#ifdef GABBRO_TOGETHER
inline constexpr bool kHaloTogether = true;
#else
inline constexpr bool kHaloTogether = false;
#endif
inline constexpr int kBorderedSide = kHaloSide + 2, kBorderedPixels = kBorderedSide * kBorderedSide;
inline constexpr int kHaloVectors = kHaloDepth / 8, kHaloStages = 2, kStepTaps = 3, kChunkSteps = kHaloTaps / kStepTaps;

// Pixels of a chunk. Products of four waves together read vectors of eight channels: all pixels' first vectors, then
// their second ones. One vector of padding spreads the eight vectors of a pixel over all banks.
struct HaloPixels {
  static constexpr u32 kVectorPitch = (kBorderedPixels + 1) * 8;  // from a vector to the next one of a pixel
  static constexpr u32 kPitch = kHaloTogether ? 8 : kHaloDepth;   // from a pixel to the next one
  static constexpr u32 kElements = kHaloTogether ? kHaloVectors * kVectorPitch : kBorderedPixels * kHaloDepth;
  GPU_FUNCTION static u32 place(u32 pixel, u32 vector) {
    return pixel * kPitch + vector * (kHaloTogether ? kVectorPitch : 8);
  }
};

// Weights of a tap. Products of four waves together read vectors of eight channels: all outputs' first vectors, then
// their second ones.
template <int columns>
struct HaloWeights {
  static constexpr u32 kElements = static_cast<u32>(columns * kHaloDepth);
  GPU_FUNCTION static u32 place(u32 output, u32 vector) {
    return kHaloTogether ? (vector * columns + output) * 8 : output * kHaloDepth + vector * 8;
  }
};

template <int columns>
struct HaloMemory {
  using Weights = HaloWeights<columns>;
  alignas(16) Half weights[kHaloStages][kStepTaps][Weights::kElements];
  alignas(16) Half pixels[2][HaloPixels::kElements];  // of this chunk and of the next one
  i32 places[kBorderedPixels];                        // pixels in x; -1: outside of the image
  alignas(8) float addend[columns];                   // bias and shift
};

// The pixels of the tile that a wave makes. Four waves together make squares of 8 x 8 pixels, next to each other, in
// which each has two rows; alone, a wave makes rows of 16 pixels, which are a fragment.
struct HaloShare {
  static constexpr int kWaves = kHaloThreads / static_cast<int>(kWave), kRows = kHaloSide / kWaves;
  // Position of sum i of fragment r.
  GPU_FUNCTION static i32 y(int r, int i) {
    const auto wave = static_cast<i32>(wave_index());
    if constexpr (kHaloTogether) return wave / 4 * 8 + wave % 4 * 2 + row_slot(i);
    return wave % 4 + 4 * (r + wave / 4 * kRows);
  }
  GPU_FUNCTION static i32 x(int r, int i) {
    if constexpr (kHaloTogether) return r * 8 + static_cast<i32>(lane()) / 4;
    return static_cast<i32>(row_of(i));
  }
  // The bordered pixel of fragment r's first row for the first tap.
  GPU_FUNCTION static u32 first(int r) {
    if constexpr (kHaloTogether) return wave_index() / 4 * 8 * kBorderedSide + static_cast<u32>(r) * 8;
    return static_cast<u32>(y(r, 0) * kBorderedSide);
  }
};
template <int columns>
using HaloSums = Accumulator[HaloShare::kRows][columns / static_cast<int>(kTile)];

// The block's tile.
struct HaloTile {
  i32 image, y, x, output;

  GPU_FUNCTION HaloTile(const ConvNhwcArgs& a, i32 columns) {
    const i32 across = (a.window.out[2] + kHaloSide - 1) / kHaloSide,
              down = (a.window.out[1] + kHaloSide - 1) / kHaloSide;
    const auto block = static_cast<i32>(block_index().x);
    const i32 place = block / a.column_tiles;
    output = block % a.column_tiles * columns;
    x = place % across * kHaloSide;
    y = place / across % down * kHaloSide;
    image = place / across / down;
  }
};

}  // namespace gabbro::gpu::GABBRO_GPU
#endif
