// Convolution of images whose channels are last, on matrix cores: the product of pixels [N · out..., taps · channels],
// which are never made as a matrix, and weights. A block makes a tile of kConvTilePixels by kConvTileOutputs. A step is
// kConvDepth channels of one tap, whose pixels and weights come to the block's memory in vectors of 8 channels, with
// zeros outside of the image, while earlier steps are multiplied.
#include "kernels/conv/conv_nhwc.h"

#include "kernels/gpu/matrix.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u32 kConvPitch = kConvDepth + 8;  // 16 bytes of padding spread eight rows over all banks
inline constexpr int kConvStages = kCopiesPassRegisters ? 3 : 2;

struct ConvTiles {
  static constexpr u32 kPixels = kConvTilePixels * kConvPitch, kWeights = kConvTileOutputs * kConvPitch;
  alignas(16) Half elements[kConvStages * (kPixels + kWeights)];

  GPU_FUNCTION Half* pixels(i32 step) { return elements + static_cast<u32>(step % kConvStages) * (kPixels + kWeights); }
  GPU_FUNCTION Half* weights(i32 step) { return pixels(step) + kPixels; }
};

// How the waves of a block share its tile.
struct ConvShare {
  static constexpr int kWaves = kConvThreads / static_cast<int>(kWave), kAlongPixels = 2;
  static constexpr int kPixels = kConvTilePixels / kAlongPixels;
  static constexpr int kOutputs = kConvTileOutputs / (kWaves / kAlongPixels);
  static constexpr int kPixelTiles = kPixels / static_cast<int>(kTile);
  static constexpr int kOutputTiles = kOutputs / static_cast<int>(kTile);

  GPU_FUNCTION static i32 first_pixel() { return static_cast<i32>(wave_index()) % kAlongPixels * kPixels; }
  GPU_FUNCTION static i32 first_output() { return static_cast<i32>(wave_index()) / kAlongPixels * kOutputs; }
};

// Brings steps into the block's memory in sequence. A thread has the same 8 channels of kRows pixels and of
// kRows rows of weights.
class ConvSteps {
 public:
  GPU_FUNCTION ConvSteps(const ConvNhwcArgs& a, i32 first_pixel, i32 first_output, i32 step)
      : a_(a), chunks_((a.channels + kConvDepth - 1) / kConvDepth) {
    const i32 tap = step / chunks_;
    tap_[0] = tap / a.window.kernel[2];
    tap_[1] = tap % a.window.kernel[2];
    chunk_ = step % chunks_;
    const i32 plane = a.window.out[1] * a.window.out[2];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const i32 pixel = first_pixel + row(i), image = pixel / plane, place = pixel - image * plane;
      const i32 y = place / a.window.out[2];
      at_[i][0] = pixel < a.pixels ? y * a.window.stride[1] - a.window.padding[1] : kFarAway;
      at_[i][1] = (place - y * a.window.out[2]) * a.window.stride[2] - a.window.padding[2];
      images_[i] = static_cast<const Half*>(a.x) +
                   static_cast<i64>(image) * (a.window.in[1] >> a.doubled) * row_pixels() * a.channels;
      outputs_[i] = first_output + row(i);
    }
  }

  GPU_FUNCTION void begin(Half* pixels, Half* weights) {
    const i32 channel = chunk_ * kConvDepth + column(), left = a_.channels - channel,
              taps = a_.window.kernel[1] * a_.window.kernel[2];
    const i32 tap = tap_[0] * a_.window.kernel[2] + tap_[1];
    const Half* const weight = static_cast<const Half*>(a_.weight);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const i32 y = at_[i][0] + tap_[0] * a_.window.dilation[1], x = at_[i][1] + tap_[1] * a_.window.dilation[2];
      const u32 to = static_cast<u32>(row(i)) * kConvPitch + static_cast<u32>(column());
      const bool seen = left > 0 && y >= 0 && y < a_.window.in[1] && x >= 0 && x < a_.window.in[2];
      begin(copy_, 2 * i, pixels + to,
            seen ? images_[i] + (static_cast<i64>(y >> a_.doubled) * row_pixels() + (x >> a_.doubled)) * a_.channels +
                       channel
                 : images_[0],
            left, seen);
      const bool is_row = left > 0 && outputs_[i] < a_.outputs;
      begin(copy_, 2 * i + 1, weights + to,
            is_row ? weight + (static_cast<i64>(outputs_[i]) * taps + tap) * a_.channels + channel : weight, left,
            is_row);
    }
    copy_.sent();
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    if (++tap_[1] < a_.window.kernel[2]) return;
    tap_[1] = 0;
    ++tap_[0];
  }
  GPU_FUNCTION void begin_none() { copy_.sent(); }
  template <int later>
  GPU_FUNCTION void end() {
    copy_.template landed<later>();
  }

 private:
  static constexpr i32 kFarAway = -(1 << 30);  // the row of a pixel past the last one: no tap of it is in the image
  static constexpr int kVectors = kConvDepth / 8, kStep = kConvThreads / kVectors, kRows = kConvTilePixels / kStep;
  static_assert(kConvTilePixels == kConvTileOutputs);
  GPU_FUNCTION i32 row_pixels() const { return a_.window.in[2] >> a_.doubled; }
  GPU_FUNCTION static i32 row(int i) { return static_cast<i32>(thread_index()) / kVectors + i * kStep; }
  GPU_FUNCTION static i32 column() { return static_cast<i32>(thread_index()) % kVectors * 8; }

  // Copies `left` elements, at most 8, and zeros behind them; zeros alone if not inside.
  template <class Copy>
  GPU_FUNCTION void begin(Copy& copy, int i, Half* to, const Half* from, i32 left, bool inside) {
    if (a_.loose == 0) return copy.begin(i, to, from, inside);
    Vec16 vec = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (inside && e < left) vec.word[e / 2] |= static_cast<u32>(from[e].bits) << (e % 2 * 16);
    }
    if constexpr (kCopiesPassRegisters) {
      store_vec16(to, vec);
    } else {
      copy.begin(i, to, vec);
    }
  }

  const ConvNhwcArgs& a_;
  const i32 chunks_;
  i32 tap_[2], chunk_;
  i32 at_[kRows][2];  // row and column of the first tap in the image
  const Half* images_[kRows];
  i32 outputs_[kRows];
  TileCopy<2 * kRows> copy_;
};

using ConvSums = Accumulator[ConvShare::kPixelTiles][ConvShare::kOutputTiles];

template <class T>
GPU_FUNCTION inline void multiply_step(const Half* pixels, const Half* weights, ConvSums& sums) {
  const Half* const own_pixels = pixels + static_cast<u32>(ConvShare::first_pixel()) * kConvPitch;
  const Half* const own_weights = weights + static_cast<u32>(ConvShare::first_output()) * kConvPitch;
#pragma unroll
  for (u32 k = 0; k < kConvDepth; k += kTile) {
    Fragment rows[ConvShare::kPixelTiles];
#pragma unroll
    for (u32 p = 0; p < ConvShare::kPixelTiles; ++p)
      rows[p] = load_fragment(own_pixels + p * kTile * kConvPitch + k, kConvPitch);
#pragma unroll
    for (u32 o = 0; o < ConvShare::kOutputTiles; ++o) {
      const Columns columns = load_columns(own_weights + o * kTile * kConvPitch + k, kConvPitch);
#pragma unroll
      for (u32 p = 0; p < ConvShare::kPixelTiles; ++p) multiply<T>(rows[p], columns, sums[p][o]);
    }
  }
}

// A sum with all that is added to it.
template <class T>
GPU_FUNCTION inline float finished(const ConvNhwcArgs& a, i32 pixel, i32 output, float sum) {
  if (a.bias != nullptr) sum += a.bias[output];
  if (a.shift != nullptr) {
    const i32 image = pixel / (a.window.out[1] * a.window.out[2]);
    sum += to_float(static_cast<const T*>(a.shift)[static_cast<i64>(image) * a.shift_step + output]);
  }
  if (a.residual != nullptr)
    sum += to_float(static_cast<const T*>(a.residual)[static_cast<i64>(pixel) * a.outputs + output]);
  return sum;
}

template <class T>
GPU_FUNCTION inline void store_tile(const ConvNhwcArgs& a, i32 first_pixel, i32 first_output, const ConvSums& sums) {
  constexpr int kTogether = kColumnPairs ? 2 : 1;
  const bool pairs = kColumnPairs && a.outputs % 2 == 0;
#pragma unroll
  for (int p = 0; p < ConvShare::kPixelTiles; ++p) {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; i += kTogether) {
      const i32 pixel = first_pixel + p * static_cast<i32>(kTile) + static_cast<i32>(row_of(i));
      if (pixel >= a.pixels) continue;
#pragma unroll
      for (int o = 0; o < ConvShare::kOutputTiles; ++o) {
        const i32 output = first_output + o * static_cast<i32>(kTile) + static_cast<i32>(column_of(i));
        if (output >= a.outputs) continue;
        const i64 at = static_cast<i64>(pixel) * a.outputs + output;
        const float* const sum = sums[p][o].value + i;
        const bool second = kTogether == 2 && output + 1 < a.outputs;
        if (a.splits > 1) {
          float* const to = a.partials + static_cast<i64>(block_index().y) * a.pixels * a.outputs + at;
          to[0] = sum[0];
          if (second) to[1] = sum[1];
          continue;
        }
        T* const to = static_cast<T*>(a.y) + at;
        const float first = finished<T>(a, pixel, output, sum[0]);
        if (pairs) {
          *reinterpret_cast<u32*>(to) = pack<T>(first, finished<T>(a, pixel, output + 1, sum[1]));
        } else {
          to[0] = from_float<T>(first);
          if (second) to[1] = from_float<T>(finished<T>(a, pixel, output + 1, sum[1]));
        }
      }
    }
  }
}

template <class T>
GPU_FUNCTION inline void conv_nhwc(const ConvNhwcArgs& a) {
  ConvTiles& tiles = block_memory<ConvTiles>();
  const i32 tile = static_cast<i32>(block_index().x);
  const i32 first_pixel = tile / a.column_tiles * kConvTilePixels,
            first_output = tile % a.column_tiles * kConvTileOutputs;
  const i32 all = a.window.kernel[1] * a.window.kernel[2] * ((a.channels + kConvDepth - 1) / kConvDepth);
  // Splits differ by one step at most.
  const i32 split = static_cast<i32>(block_index().y), each = all / a.splits, more = all % a.splits;
  const i32 from = split * each + min_of(split, more), count = each + (split < more ? 1 : 0);
  ConvSteps steps(a, first_pixel, first_output, from);
  ConvSums sums;
  if constexpr (kCopiesPassRegisters) {
#pragma unroll
    for (int s = 0; s < kConvStages - 1; ++s)
      s < count ? steps.begin(tiles.pixels(s), tiles.weights(s)) : steps.begin_none();
    for (i32 s = 0; s < count; ++s) {
      steps.end<kConvStages - 2>();
      barrier();
      const i32 next = s + kConvStages - 1;
      next < count ? steps.begin(tiles.pixels(next), tiles.weights(next)) : steps.begin_none();
      multiply_step<T>(tiles.pixels(s), tiles.weights(s), sums);
    }
  } else {
    steps.begin(tiles.pixels(0), tiles.weights(0));
    steps.end<0>();
    barrier();
    for (i32 s = 0; s < count; ++s) {
      const bool has_next = s + 1 < count;
      if (has_next) steps.begin(tiles.pixels(s + 1), tiles.weights(s + 1));
      multiply_step<T>(tiles.pixels(s), tiles.weights(s), sums);
      if (has_next) steps.end<0>();
      barrier();
    }
  }
  store_tile<T>(a, first_pixel + ConvShare::first_pixel(), first_output + ConvShare::first_output(), sums);
}

// The sum of the splits, in their order; a thread has kConvFinished elements, of one pixel if its outputs are a
// multiple of their number.
template <class T>
GPU_FUNCTION inline void conv_nhwc_finish(const ConvNhwcArgs& a) {
  const i64 first = global_index() * kConvFinished, total = static_cast<i64>(a.pixels) * a.outputs;
  if (first >= total) return;
  const bool vectors = a.outputs % kConvFinished == 0;
  const auto count = static_cast<int>(min_of(total - first, static_cast<i64>(kConvFinished)));
  float sums[kConvFinished] = {};
  for (i32 split = 0; split < a.splits; ++split) {
    const float* const from = a.partials + split * total + first;
    Vec16 parts = {};
    if (vectors) {
      parts = load_vec16(from);
    } else {
#pragma unroll
      for (int i = 0; i < kConvFinished; ++i)
        if (i < count) parts.word[i] = float_to_bits(from[i]);
    }
#pragma unroll
    for (int i = 0; i < kConvFinished; ++i) sums[i] += bits_to_float(parts.word[i]);
  }
  i32 pixel = static_cast<i32>(first / a.outputs);
  i32 output = static_cast<i32>(first - static_cast<i64>(pixel) * a.outputs);
#pragma unroll
  for (int i = 0; i < kConvFinished; ++i) {
    if (i >= count) break;
    static_cast<T*>(a.y)[first + i] = from_float<T>(finished<T>(a, pixel, output, sums[i]));
    if (++output < a.outputs) continue;
    output = 0;
    ++pixel;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_CONV_NHWC(name, T)                                                                    \
  GPU_MEMORY_KERNEL(conv_nhwc_##name, gabbro::gpu::kConvThreads, gabbro::gpu::GABBRO_GPU::ConvTiles, \
                    gabbro::gpu::ConvNhwcArgs, conv_nhwc<gabbro::gpu::T>)                            \
  GPU_KERNEL(conv_nhwc_finish_##name, 256, gabbro::gpu::ConvNhwcArgs, conv_nhwc_finish<gabbro::gpu::T>)
GABBRO_CONV_NHWC(f16, Half)
GABBRO_CONV_NHWC(bf16, BFloat)
