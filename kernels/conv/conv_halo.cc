// Convolution with 3 x 3 taps and stride 1 of images whose channels are last, on matrix cores. A block makes a tile of
// 16 x 16 pixels by `columns` outputs. 64 channels of the tile and of the border around it come to the block's memory
// once and serve all nine taps, so that the L2 cache delivers a fraction of what a product of taps would read. A step
// is a row of three taps of 64 channels; its weights, and a part of the next chunk of pixels, come while the step
// before multiplies.
#include "kernels/conv/halo_results.h"

#ifdef GABBRO_LARGE_BLOCKS
namespace gabbro::gpu::GABBRO_GPU {

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
  // The next step. Products of the step before the last one that came are done.
  GPU_INLINE void begin() {
    if (chunk_ <= last_chunk_) {
#pragma unroll
      for (i32 tap = 0; tap < kStepTaps; ++tap)
        copy_weights(row_ * kStepTaps + tap, memory_.weights[step_ % kHaloStages][tap]);
      // The first step of a chunk comes while the last one of the chunk before multiplies.
      if (row_ > 0 && chunk_ < last_chunk_) {
#pragma unroll
        for (int i = 0; i < kPixelVectors; ++i) {
          const i32 index = ((row_ - 1) * kPixelVectors + i) * kHaloThreads + static_cast<i32>(thread_index());
          if (index < kBorderedPixels * kHaloVectors) copy_pixel(index, chunk_ + 1, memory_.pixels[(loaded_ + 1) % 2]);
        }
      }
      ++step_;
      if (++row_ == kChunkSteps) {
        row_ = 0;
        ++chunk_;
        ++loaded_;
      }
    }
    copy_.sent();
  }
  GPU_INLINE void end() {
    if constexpr (kCopiesPassRegisters) copy_.template landed<0>();
  }

 private:
  // Vectors of the next chunk that a thread brings with a step: with all steps of a chunk but the first.
  static constexpr int kPixelVectors =
      (kBorderedPixels * kHaloVectors + (kChunkSteps - 1) * kHaloThreads - 1) / ((kChunkSteps - 1) * kHaloThreads);

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
  GPU_INLINE void copy_weights(i32 tap, Half* weights) {
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
      const i64 row = static_cast<i64>(tile_.output + output) * kHaloTaps + tap;
      copy(weights + Weights::place(static_cast<u32>(output), static_cast<u32>(vector)),
           inside ? weight + row * a_.channels + channel : weight, inside);
    }
  }

  const ConvNhwcArgs& a_;
  const HaloTile& tile_;
  Memory& memory_;
  i32 chunk_, last_chunk_;
  i32 row_ = 0, step_ = 0, loaded_ = 0;  // of the step that comes next
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

// Products of a tap of 64 channels, between begin_together() and sent_together().
template <class T, int columns>
GPU_INLINE inline void multiply_tap(const Half* pixels, const Half* weights, HaloSums<columns>& sums) {
#ifdef GABBRO_TOGETHER
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
        rows[k / kTile][r] = load_fragment(pixels + HaloPixels::place(HaloShare::first(r), (half + k) / 8), kHaloDepth);
    }
#pragma unroll
    for (u32 k = 0; k < kHalf; k += kTile) {
#pragma unroll
      for (int o = 0; o < columns / static_cast<int>(kTile); ++o) {
        const Columns tile = load_columns(weights + static_cast<u32>(o) * kTile * kHaloDepth + half + k, kHaloDepth);
#pragma unroll
        for (int r = 0; r < HaloShare::kRows; ++r) multiply<T>(rows[k / kTile][r], tile, sums[r][o]);
      }
    }
  }
#endif
}

// Products of a step. Returns when products of the step before are done.
template <class T, int columns>
GPU_INLINE inline void multiply_step(const Half* pixels, const Half (*weights)[HaloWeights<columns>::kElements],
                                     HaloSums<columns>& sums) {
#ifdef GABBRO_TOGETHER
  begin_together();
#endif
#pragma unroll
  for (u32 tap = 0; tap < kStepTaps; ++tap)
    multiply_tap<T, columns>(pixels + tap * HaloPixels::kPitch, weights[tap], sums);
#ifdef GABBRO_TOGETHER
  sent_together();
  done_together<1>();
#endif
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
  HaloSums<columns> sums;
  for (i32 step = 0; step < chunks * kChunkSteps; ++step) {
    const i32 chunk = step / kChunkSteps, row = step % kChunkSteps;
    steps.end();
#ifdef GABBRO_TOGETHER
    show_together();
#endif
    barrier();  // this step is there
    multiply_step<T, columns>(memory.pixels[chunk % 2] + static_cast<u32>(row * kBorderedSide) * HaloPixels::kPitch,
                              memory.weights[step % kHaloStages], sums);
    barrier();  // products of the step before are done
    steps.begin();
  }
#ifdef GABBRO_TOGETHER
  done_together<0>();
#pragma unroll
  for (int r = 0; r < HaloShare::kRows; ++r) settle_together<columns / 2>(sums[r][0].value);
#endif
  if constexpr (kColumnPairs && kRowSlots == 2) {
    if (a.splits == 1 && a.outputs % 8 == 0) return store_vectors<T, columns>(a, tile, memory.addend, sums);
    if (a.splits > 1 && a.outputs % 2 == 0) return store_partials<columns>(a, tile, sums);
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
