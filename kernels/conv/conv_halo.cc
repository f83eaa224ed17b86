// Convolution with 3 x 3 taps and stride 1 of images whose channels are last, on matrix cores. A block makes a tile of
// 16 x 16 pixels by `columns` outputs. 64 channels of the tile and of the border around it come to the block's memory
// once and serve all nine taps, so that the L2 cache delivers a fraction of what a product of taps would read. A step
// is one tap of 64 channels; its weights, and a part of the next chunk of pixels, come while earlier steps multiply.
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
inline constexpr u32 kHaloPitch = kHaloDepth + 8;  // 16 bytes of padding spread eight rows over all banks
inline constexpr int kHaloVectors = kHaloDepth / 8, kHaloStages = 4;

// Pixels of a chunk. Products of four waves together read vectors of eight channels: all pixels' first vectors, then
// their second ones. One vector of padding spreads the eight vectors of a pixel over all banks.
struct HaloPixels {
  static constexpr u32 kVectorPitch = (kBorderedPixels + 1) * 8;  // from a vector to the next one of a pixel
  static constexpr u32 kPitch = kHaloTogether ? 8 : kHaloPitch;   // from a pixel to the next one
  static constexpr u32 kElements = kHaloTogether ? kHaloVectors * kVectorPitch : kBorderedPixels * kHaloPitch;
  GPU_FUNCTION static u32 place(u32 pixel, u32 vector) {
    return pixel * kPitch + vector * (kHaloTogether ? kVectorPitch : 8);
  }
};

// Weights of a step. Products of four waves together read vectors of eight channels: all outputs' first vectors, then
// their second ones.
template <int columns>
struct HaloWeights {
  static constexpr u32 kElements = static_cast<u32>(columns) * (kHaloTogether ? kHaloDepth : kHaloPitch);
  GPU_FUNCTION static u32 place(u32 output, u32 vector) {
    return kHaloTogether ? (vector * columns + output) * 8 : output * kHaloPitch + vector * 8;
  }
};

template <int columns>
struct HaloMemory {
  using Weights = HaloWeights<columns>;
  alignas(16) Half weights[kHaloStages][Weights::kElements];
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

// Brings steps into the block's memory in sequence.
template <int columns>
class HaloSteps {
 public:
  using Memory = HaloMemory<columns>;
  using Weights = HaloWeights<columns>;

  GPU_INLINE HaloSteps(const ConvNhwcArgs& a, const HaloTile& tile, Memory& memory, i32 first_chunk, i32 chunks)
      : a_(a), tile_(tile), memory_(memory), chunk_(first_chunk), last_chunk_(first_chunk + chunks - 1) {}

  // The first chunk of pixels, for the first step.
  GPU_INLINE void begin_pixels() {
    for (i32 i = static_cast<i32>(thread_index()); i < kBorderedPixels * kHaloVectors; i += kHaloThreads)
      copy_pixel(i, chunk_, memory_.pixels[0]);
  }
  // The next step.
  GPU_INLINE void begin() {
    if (chunk_ <= last_chunk_) {
      copy_weights(memory_.weights[step_ % kHaloStages]);
      // No step reads the other chunk's memory any more when this step of a chunk begins to come.
      if (tap_ >= kFirstTap && chunk_ < last_chunk_) {
#pragma unroll
        for (int i = 0; i < kPixelVectors; ++i) {
          const i32 index = ((tap_ - kFirstTap) * kPixelVectors + i) * kHaloThreads + static_cast<i32>(thread_index());
          if (index < kBorderedPixels * kHaloVectors) copy_pixel(index, chunk_ + 1, memory_.pixels[(loaded_ + 1) % 2]);
        }
      }
      ++step_;
      if (++tap_ == kHaloTaps) {
        tap_ = 0;
        ++chunk_;
        ++loaded_;
      }
    }
    copy_.sent();
  }
  template <int later>
  GPU_INLINE void end() {
    if constexpr (kCopiesPassRegisters) copy_.template landed<later>();
  }

 private:
  // Products of four waves read the pixels until the second step after theirs.
  static constexpr i32 kFirstTap = kHaloTogether ? 3 : 2;
  // Vectors of the next chunk that a thread brings with a step.
  static constexpr int kPixelVectors = 2;
  static_assert((kHaloTaps - kFirstTap) * kPixelVectors * kHaloThreads >= kBorderedPixels * kHaloVectors);

  GPU_INLINE void copy(Half* to, const Half* from, bool inside) {
    if constexpr (kCopiesPassRegisters) {
      copy_.begin(0, to, from, inside);
    } else {
      store_vec16(to, inside ? load_vec16(from) : Vec16{});
    }
  }
  GPU_INLINE void copy_pixel(i32 index, i32 chunk, Half* pixels) {
    const i32 pixel = index / kHaloVectors, vector = index % kHaloVectors, place = memory_.places[pixel];
    const i32 channel = chunk * kHaloDepth + vector * 8;
    const bool inside = place >= 0 && channel < a_.channels;
    const Half* const x = static_cast<const Half*>(a_.x);
    copy(pixels + HaloPixels::place(static_cast<u32>(pixel), static_cast<u32>(vector)),
         inside ? x + static_cast<i64>(place) * a_.channels + channel : x, inside);
  }
  // Eight lanes have the same vector of eight outputs, which are neighbors in the block's memory; a wave reads parts of
  // 64 bytes or more.
  GPU_INLINE void copy_weights(Half* weights) {
    constexpr int kUnits = columns / 8 * kHaloVectors / 8;  // of eight vectors of eight outputs, by 64 threads
    constexpr int kGroups = kHaloThreads / 64;
    const auto thread = static_cast<i32>(thread_index());
    const i32 group = thread / 64, vector = thread % 64 / 8;
    const Half* const weight = static_cast<const Half*>(a_.weight);
    const i32 channel = chunk_ * kHaloDepth + vector * 8;
#pragma unroll
    for (int i = 0; i < (kUnits + kGroups - 1) / kGroups; ++i) {
      const i32 output = (i * kGroups + group) * 8 + thread % 8;
      if (columns % (kGroups * 8) != 0 && output >= columns) continue;
      const bool inside = tile_.output + output < a_.outputs && channel < a_.channels;
      const i64 row = static_cast<i64>(tile_.output + output) * kHaloTaps + tap_;
      copy(weights + Weights::place(static_cast<u32>(output), static_cast<u32>(vector)),
           inside ? weight + row * a_.channels + channel : weight, inside);
    }
  }

  const ConvNhwcArgs& a_;
  const HaloTile& tile_;
  Memory& memory_;
  i32 chunk_, last_chunk_;
  i32 tap_ = 0, step_ = 0, loaded_ = 0;  // of the step that comes next
  TileCopy<1> copy_;
};

// Pixels of x for the tile and its border, and what is added to each output.
template <class T, int columns>
GPU_FUNCTION inline void prepare_halo(const ConvNhwcArgs& a, const HaloTile& tile, HaloMemory<columns>& memory) {
  for (i32 i = static_cast<i32>(thread_index()); i < kBorderedPixels; i += kHaloThreads) {
    const i32 y = tile.y + i / kBorderedSide - a.window.padding[1],
              x = tile.x + i % kBorderedSide - a.window.padding[2];
    const bool inside = y >= 0 && y < a.window.in[1] && x >= 0 && x < a.window.in[2];
    const i32 rows = a.window.in[1] >> a.doubled, row = a.window.in[2] >> a.doubled;
    memory.places[i] = inside ? (tile.image * rows + (y >> a.doubled)) * row + (x >> a.doubled) : -1;
  }
  for (i32 i = static_cast<i32>(thread_index()); i < columns; i += kHaloThreads) {
    const i32 output = tile.output + i;
    float sum = 0;
    if (output < a.outputs) {
      if (a.bias != nullptr) sum = a.bias[output];
      if (a.shift != nullptr)
        sum += to_float(static_cast<const T*>(a.shift)[static_cast<i64>(tile.image) * a.shift_step + output]);
    }
    memory.addend[i] = sum;
  }
}

// One step: a tap of 64 channels.
template <class T, int columns>
GPU_INLINE inline void multiply_tap(const Half* pixels, const Half* weights, HaloSums<columns>& sums) {
#ifdef GABBRO_TOGETHER
  begin_together();
#pragma unroll
  for (u32 vector = 0; vector < kHaloVectors; vector += 2) {
    const u64 tile = together_columns<columns>(weights + HaloWeights<columns>::place(0, vector));
#pragma unroll
    for (int r = 0; r < HaloShare::kRows; ++r) {
      const Half* const first = pixels + HaloPixels::place(HaloShare::first(r), vector);
      RowsProduct<T, columns>::multiply(
          together_rows<kBorderedSide * HaloPixels::kPitch, HaloPixels::kVectorPitch>(first), tile, true,
          sums[r][0].value);
    }
  }
  sent_together();
#else
  // The fragments of 32 channels are loaded while those before are multiplied.
  constexpr u32 kHalf = kHaloDepth / 2;
#pragma unroll
  for (u32 half = 0; half < kHaloDepth; half += kHalf) {
    Fragment rows[kHalf / kTile][HaloShare::kRows];
#pragma unroll
    for (u32 k = 0; k < kHalf; k += kTile) {
#pragma unroll
      for (int r = 0; r < HaloShare::kRows; ++r)
        rows[k / kTile][r] = load_fragment(pixels + HaloPixels::place(HaloShare::first(r), (half + k) / 8), kHaloPitch);
    }
#pragma unroll
    for (u32 k = 0; k < kHalf; k += kTile) {
#pragma unroll
      for (int o = 0; o < columns / static_cast<int>(kTile); ++o) {
        const Columns tile = load_columns(weights + static_cast<u32>(o) * kTile * kHaloPitch + half + k, kHaloPitch);
#pragma unroll
        for (int r = 0; r < HaloShare::kRows; ++r) multiply<T>(rows[k / kTile][r], tile, sums[r][o]);
      }
    }
  }
#endif
}

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
#pragma unroll
      for (int first = 0; first < columns; first += 8 * kGroups) {
        const auto own = static_cast<i32>(lane() % 4);
        const i32 output = tile.output + first + own * 8;  // of the eight that this lane stores
        const bool stores = is_pixel && own < kGroups && output < a.outputs;
        const i64 at = pixel * a.outputs + output;
        Vec16 added = {};
        if (a.residual != nullptr) {
          if (stores) added = load_vec16(static_cast<const T*>(a.residual) + at);
          transpose_words(added.word);
        }
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
        if (stores) store_vec16(static_cast<T*>(a.y) + at, result);
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

template <class T, int columns>
GPU_FUNCTION inline void conv_halo(const ConvNhwcArgs& a) {
  auto& memory = block_memory<HaloMemory<columns>>();
  const HaloTile tile(a, columns);
  // Splits are of chunks, and differ by one at most.
  const i32 all = (a.channels + kHaloDepth - 1) / kHaloDepth, split = static_cast<i32>(block_index().y);
  const i32 each = all / a.splits, more = all % a.splits;
  const i32 first = split * each + min_of(split, more), chunks = each + (split < more ? 1 : 0);
  prepare_halo<T>(a, tile, memory);
  barrier();
  HaloSteps<columns> steps(a, tile, memory, first, chunks);
  steps.begin_pixels();
  steps.begin();
  if constexpr (kCopiesPassRegisters) steps.begin();
  HaloSums<columns> sums;
  for (i32 chunk = 0, step = 0; chunk < chunks; ++chunk) {
    const Half* const pixels = memory.pixels[chunk % 2];
    for (i32 tap = 0; tap < kHaloTaps; ++tap, ++step) {
      steps.template end<1>();
#ifdef GABBRO_TOGETHER
      show_together();
      done_together<1>();
#endif
      barrier();  // this step is there; products of all steps but the last one are done
      steps.begin();
      multiply_tap<T, columns>(pixels + static_cast<u32>(tap / 3 * kBorderedSide + tap % 3) * HaloPixels::kPitch,
                               memory.weights[step % kHaloStages], sums);
    }
  }
#ifdef GABBRO_TOGETHER
  done_together<0>();
#pragma unroll
  for (int r = 0; r < HaloShare::kRows; ++r) settle_together<columns / 2>(sums[r][0].value);
#endif
  if constexpr (kColumnPairs && kRowSlots == 2) {
    if (a.splits == 1 && a.outputs % 8 == 0) return store_vectors<T, columns>(a, tile, memory.addend, sums);
  }
  store_elements<T, columns>(a, tile, memory.addend, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_CONV_HALO(name, T, columns)                                                   \
  GPU_MEMORY_KERNEL(conv_halo_##name##_##columns, gabbro::gpu::kHaloThreads,                 \
                    gabbro::gpu::GABBRO_GPU::HaloMemory<columns>, gabbro::gpu::ConvNhwcArgs, \
                    conv_halo<gabbro::gpu::T, columns>)
GABBRO_CONV_HALO(f16, Half, 16)
GABBRO_CONV_HALO(f16, Half, 128)
GABBRO_CONV_HALO(f16, Half, 160)
GABBRO_CONV_HALO(bf16, BFloat, 16)
GABBRO_CONV_HALO(bf16, BFloat, 128)
GABBRO_CONV_HALO(bf16, BFloat, 160)
#endif
