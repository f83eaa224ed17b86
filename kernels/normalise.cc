// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018) and BatchNorm (Ioffe & Szegedy 2015): y = (x - mean) /
// sqrt(variance + epsilon) · weight + bias; RMSNorm (Zhang & Sennrich 2019), which is the same with a mean of 0; and
// the moments that they need. In f32, the variance from the distances to the mean; those of slices are joined as Chan
// et al. (1979) do.
#include "kernels/normalise.h"

#include "kernels/row_packs.h"
#include "kernels/strided.h"

namespace gabbro::gpu::GABBRO_GPU {

// A channel's y = x · scale + shift.
struct Affine {
  float scale, shift;
};
GPU_FUNCTION inline Affine affine_of(const NormaliseArgs& a, i64 row, i32 column, float mean, float factor) {
  const i64 channel = row % a.groups * (a.columns / a.spatial) + (a.spatial == 1 ? column : column / a.spatial);
  const float scale = a.weight == nullptr ? factor : factor * a.weight[channel];
  return {scale, (a.bias == nullptr ? 0 : a.bias[channel]) - mean * scale};
}

// What a pack's elements have of a parameter f32 [channels].
template <class T>
struct RowParameters {
  float value[RowPack<T>::kElements];

  // Of the channels from `channel` on, one for each element, or of that one alone. Where there is none: `otherwise`.
  GPU_FUNCTION RowParameters(const float* parameter, i64 channel, bool each, float otherwise) {
    if (parameter != nullptr && each) {
#pragma unroll
      for (int q = 0; q < RowPack<T>::kElements / 4; ++q) {
        const Quad quad = load_quad(parameter + channel + 4 * q);
#pragma unroll
        for (int e = 0; e < 4; ++e) value[4 * q + e] = bits_to_float(quad.word[e]);
      }
      return;
    }
    const float all = parameter == nullptr ? otherwise : parameter[channel];
#pragma unroll
    for (int e = 0; e < RowPack<T>::kElements; ++e) value[e] = all;
  }
};

// A block a row, an element at a time.
template <class T>
GPU_FUNCTION inline void normalise_rows(const NormaliseArgs& a) {
  const i64 row = block_index().x;
  const T* x = static_cast<const T*>(a.x) + row * a.columns;
  T* y = static_cast<T*>(a.y) + row * a.columns;
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  float sum = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) sum += to_float(x[k]);
  const float mean = a.centred ? block_sum(sum) / static_cast<float>(a.columns) : 0;
  float squares = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) {
    const float distance = to_float(x[k]) - mean;
    squares = fma(distance, distance, squares);
  }
  const float factor = 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) {
    const Affine affine = affine_of(a, row, k, 0, factor);
    y[k] = from_float<T>(fma(to_float(x[k]) - mean, affine.scale, affine.shift));
  }
}

// Of rows that are whole packs and fit in registers, with channels that are single columns or whole packs.
template <class T, RowTeam team, int kPacks>
GPU_FUNCTION inline void normalise_packs(const NormaliseArgs& a) {
  const i64 row = team_row<team>();
  if (row >= a.rows) return;
  RowShare<T, team, kPacks> share(static_cast<const T*>(a.x) + row * a.columns, a.columns);
  const float count = static_cast<float>(a.columns);
  float sum = 0, squares = 0;
  if (a.centred) share.for_each([&](float value) { sum += value; });
  const float mean = a.centred ? team_sum<team>(sum) / count : 0;
  share.for_each([&](float& value) {
    value -= mean;
    squares = fma(value, value, squares);
  });
  const float factor = 1 / sqrt(team_sum<team>(squares) / count + a.epsilon);
  share.store(static_cast<T*>(a.y) + row * a.columns, [&](i32 column) {
    const bool single = a.spatial == 1;
    const i64 channel = row % a.groups * (a.columns / a.spatial) + (single ? column : column / a.spatial);
    RowParameters<T> scale(a.weight, channel, single, 1), shift(a.bias, channel, single, 0);
    return [=](float value, int e) { return fma(value * factor, scale.value[e], shift.value[e]); };
  });
}

template <class T>
GPU_FUNCTION inline void normalise_known(const KnownArgs& a) {
  const i64 step = block_size(), first = static_cast<i64>(block_index().x) * step * kPerThread + thread_index();
#pragma unroll
  for (int n = 0; n < kPerThread; ++n) {
    const i64 at = first + n * step;
    if (at >= a.total) return;
    // A division of 64 bits takes ten times as long as one of 32.
    const i64 row =
        a.total <= 0xffffffff ? static_cast<u32>(at) / static_cast<u32>(a.norm.columns) : at / a.norm.columns;
    const i64 place = row % a.statistics;
    const float mean = a.mean[place], factor = 1 / sqrt(a.variance[place] + a.norm.epsilon);
    const Affine affine = affine_of(a.norm, row, static_cast<i32>(at - row * a.norm.columns), 0, factor);
    const float x = to_float(static_cast<const T*>(a.norm.x)[at]);
    static_cast<T*>(a.norm.y)[at] = from_float<T>(fma(x - mean, affine.scale, affine.shift));
  }
}

template <class T>
GPU_FUNCTION inline void moments(const MomentsArgs& a) {
  const u32 block = block_index().x, slices = static_cast<u32>(a.slices), channel = block / slices;
  const i32 count = a.outer * a.inner, begin = static_cast<i32>(block % slices) * a.slice;
  const i32 end = min_of(count, begin + min_of(a.slice, count - begin));
  const auto element = [&](i32 i) {
    const i64 image = i / a.inner, place = i % a.inner;
    return to_float(static_cast<const T*>(a.x)[(image * a.channels + channel) * a.inner + place]);
  };
  const i32 first = begin + static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  float sum = 0;
  for (i32 i = first; i < end; i += step) sum += element(i);
  const float mean = block_sum(sum) / static_cast<float>(end - begin);
  float squares = 0;
  for (i32 i = first; i < end; i += step) {
    const float distance = element(i) - mean;
    squares = fma(distance, distance, squares);
  }
  squares = block_sum(squares);
  if (thread_index() != 0) return;
  a.mean[block] = mean;
  a.variance[block] = slices == 1 ? squares / static_cast<float>(end - begin) : squares;
}

// A thread a channel.
GPU_FUNCTION inline void moments_join(const JoinMomentsArgs& a) {
  const i64 channel = global_index();
  if (channel >= a.channels) return;
  float mean = 0, squares = 0, count = 0;
  for (i32 slice = 0; slice < a.slices; ++slice) {
    const i64 part = channel * a.slices + slice;
    const float more = static_cast<float>(min_of(a.slice, a.count - slice * a.slice)), all = count + more;
    const float distance = a.means[part] - mean;
    mean += distance * (more / all);
    squares += a.squares[part] + distance * distance * (count * (more / all));
    count = all;
  }
  a.mean[channel] = mean;
  a.variance[channel] = squares / count;
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_NORMALISE(name, T)                                                       \
  GPU_KERNEL(normalise_rows_##name, 256, gabbro::gpu::NormaliseArgs, normalise_rows<T>) \
  GPU_KERNEL(normalise_rows_##name##_wave, 256, gabbro::gpu::NormaliseArgs,             \
             normalise_packs<T, gabbro::gpu::GABBRO_GPU::RowTeam::kWave, 4>)            \
  GPU_KERNEL(normalise_rows_##name##_block, 256, gabbro::gpu::NormaliseArgs,            \
             normalise_packs<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 2>)           \
  GPU_KERNEL(normalise_rows_##name##_wide, 512, gabbro::gpu::NormaliseArgs,             \
             normalise_packs<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)           \
  GPU_KERNEL(normalise_known_##name, 256, gabbro::gpu::KnownArgs, normalise_known<T>)   \
  GPU_KERNEL(moments_##name, 256, gabbro::gpu::MomentsArgs, moments<T>)
GABBRO_NORMALISE(f32, float)
GABBRO_NORMALISE(f16, gabbro::gpu::Half)
GABBRO_NORMALISE(bf16, gabbro::gpu::BFloat)

GPU_KERNEL(moments_join, 256, gabbro::gpu::JoinMomentsArgs, moments_join)
