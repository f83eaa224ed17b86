// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018) and BatchNorm (Ioffe & Szegedy 2015): y = (x - mean) /
// sqrt(variance + epsilon) · weight + bias; RMSNorm (Zhang & Sennrich 2019), which is the same with a mean of 0; and
// the moments that they need. In f32, the variance from the distances to the mean; moments of slices are merged as Chan
// et al. (1979) do.
#include "kernels/rows/layer_norm.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/strided.h"
#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

// Element `channel` of the weights or of the biases.
template <class T>
GPU_FUNCTION inline float parameter_of(const NormalizeArgs& a, const void* parameter, i64 channel, float otherwise) {
  if (parameter == nullptr) return otherwise;
  return a.half_parameters ? to_float(static_cast<const T*>(parameter)[channel])
                           : static_cast<const float*>(parameter)[channel];
}

// A channel's y = x · scale + shift of a normalized x. Its product with the row's factor may overflow.
struct Affine {
  float scale, shift;
};
template <class T>
GPU_FUNCTION inline Affine affine_of(const NormalizeArgs& a, i64 row, i32 column) {
  const i64 channel = row % a.groups * (a.columns / a.spatial) + (a.spatial == 1 ? column : column / a.spatial);
  return {parameter_of<T>(a, a.weight, channel, 1), parameter_of<T>(a, a.bias, channel, 0)};
}

// Weights or biases of a vector's elements.
template <class T>
struct RowParameters {
  static constexpr int kElements = RowVector<T>::kElements;
  float value[kElements];

  // For the channels from `channel` on, one per element, or for that channel alone.
  GPU_FUNCTION RowParameters(const NormalizeArgs& a, const void* parameter, i64 channel, bool each, float otherwise) {
    if (parameter == nullptr || !each) {
      const float all = parameter_of<T>(a, parameter, channel, otherwise);
#pragma unroll
      for (int e = 0; e < kElements; ++e) value[e] = all;
    } else if (a.half_parameters) {
      const auto vector = *reinterpret_cast<const RowVector<T>*>(static_cast<const T*>(parameter) + channel);
#pragma unroll
      for (int e = 0; e < kElements; ++e) value[e] = to_float(vector.value[e]);
    } else {
#pragma unroll
      for (int q = 0; q < kElements / 4; ++q) {
        const Vec16 vec = load_vec16(static_cast<const float*>(parameter) + channel + 4 * q);
#pragma unroll
        for (int e = 0; e < 4; ++e) value[4 * q + e] = bits_to_float(vec.word[e]);
      }
    }
  }
};

// A block a row, an element at a time.
template <class T>
GPU_FUNCTION inline void normalize_rows(const NormalizeArgs& a) {
  const i64 row = flat_block();
  if (row >= a.rows) return;
  const T* x = static_cast<const T*>(a.x) + row * a.columns;
  T* y = static_cast<T*>(a.y) + row * a.columns;
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  if (a.addend != nullptr) {  // a thread reads what it wrote itself
    T* sums = static_cast<T*>(a.sum) + row * a.columns;
    const T* addend = static_cast<const T*>(a.addend) + row * a.columns;
#pragma unroll 4
    for (i32 k = first; k < a.columns; k += step) sums[k] = from_float<T>(to_float(x[k]) + to_float(addend[k]));
    x = sums;
  }
  float sum = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) sum += to_float(x[k]);
  const float mean = a.centered ? block_sum(sum) / static_cast<float>(a.columns) : 0;
  float squares = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) {
    const float distance = to_float(x[k]) - mean;
    squares = fma(distance, distance, squares);
  }
  const float factor = 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) {
    const Affine affine = affine_of<T>(a, row, k);
    y[k] = from_float<T>(fma((to_float(x[k]) - mean) * factor, affine.scale, affine.shift));
  }
}

// For rows that are whole 16-byte vectors and fit in registers, with channels that are single columns or whole vectors.
template <class T, RowTeam team, int kVectors>
GPU_FUNCTION inline void normalize_vectors(const NormalizeArgs& a) {
  const i64 row = team_row<team>();
  if (row >= a.rows) return;
  RowShare<T, team, kVectors> share(static_cast<const T*>(a.x) + row * a.columns, a.columns);
  if (a.addend != nullptr) {
    share.add(static_cast<const T*>(a.addend) + row * a.columns, static_cast<T*>(a.sum) + row * a.columns);
  }
  const float count = static_cast<float>(a.columns);
  float sum = 0, squares = 0;
  if (a.centered) share.for_each([&](float value) { sum += value; });
  const float mean = a.centered ? team_sum<team>(sum) / count : 0;
  share.for_each([&](float& value) {
    value -= mean;
    squares = fma(value, value, squares);
  });
  const float factor = 1 / sqrt(team_sum<team>(squares) / count + a.epsilon);
  // A division of 64 bits takes as long as a row's loads.
  const bool single = a.spatial == 1;
  const i64 first_channel = a.groups == 1 ? 0 : row % a.groups * (a.columns / a.spatial);
  share.store(static_cast<T*>(a.y) + row * a.columns, [&](i32 column) {
    const i64 channel = first_channel + (single ? column : column / a.spatial);
    RowParameters<T> scale(a, a.weight, channel, single, 1), shift(a, a.bias, channel, single, 0);
    return [=](float value, int e) { return fma(value * factor, scale.value[e], shift.value[e]); };
  });
}

GPU_FUNCTION inline float activated(NormActivation activation, float x) {
  if (activation == NormActivation::kRelu) return Relu::of(x);
  if (activation == NormActivation::kGeluTanh) return GeluTanh::of(x);
  return activation == NormActivation::kSilu ? Silu::of(x) : x;
}

template <class T>
GPU_FUNCTION inline void normalize_known(const KnownArgs& a) {
  const i64 step = block_size(), first = flat_block() * step * kPerThread + thread_index();
#pragma unroll
  for (int n = 0; n < kPerThread; ++n) {
    const i64 at = first + n * step;
    if (at >= a.total) return;
    // A division of 64 bits takes ten times as long as one of 32.
    const i64 row =
        a.total <= 0xffffffff ? static_cast<u32>(at) / static_cast<u32>(a.norm.columns) : at / a.norm.columns;
    const i64 place = row % a.statistics;
    const float mean = a.mean[place], factor = 1 / sqrt(a.variance[place] + a.norm.epsilon);
    const Affine affine = affine_of<T>(a.norm, row, static_cast<i32>(at - row * a.norm.columns));
    const float x = to_float(static_cast<const T*>(a.norm.x)[at]);
    static_cast<T*>(a.norm.y)[at] =
        from_float<T>(activated(a.norm.activation, fma((x - mean) * factor, affine.scale, affine.shift)));
  }
}

template <class T>
GPU_FUNCTION inline void normalize_known_rows(const KnownRowsArgs& a) {
  constexpr i32 kElements = RowVector<T>::kElements;
  const i64 row = flat_block();
  if (row >= a.norm.rows) return;
  const i32 begin = static_cast<i32>(block_index().y) * a.slice, end = min_of(begin + a.slice, a.norm.columns);
  const float mean = a.mean[row % a.statistics], factor = 1 / sqrt(a.variance[row % a.statistics] + a.norm.epsilon);
  const Affine affine = affine_of<T>(a.norm, row, 0);
  const auto* x = reinterpret_cast<const RowVector<T>*>(static_cast<const T*>(a.norm.x) + row * a.norm.columns);
  auto* y = reinterpret_cast<RowVector<T>*>(static_cast<T*>(a.norm.y) + row * a.norm.columns);
  const i32 first = begin / kElements + static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
#pragma unroll 4
  for (i32 p = first; p < end / kElements; p += step) {
    RowVector<T> vector = x[p];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const float y_e = fma((to_float(vector.value[e]) - mean) * factor, affine.scale, affine.shift);
      vector.value[e] = from_float<T>(activated(a.norm.activation, y_e));
    }
    y[p] = vector;
  }
}

// body(value) for each of the thread's elements of a slice of a channel.
template <class T, class Body>
GPU_FUNCTION inline void for_channel(const MomentsArgs& a, u32 channel, i32 begin, i32 end, Body body) {
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  const T* x = static_cast<const T*>(a.x);
  if (a.vectors) {
    constexpr i32 kElements = RowVector<T>::kElements;
    const i32 inner = a.inner / kElements;
#pragma unroll 4
    for (i32 p = begin / kElements + first; p < end / kElements; p += step) {
      const i64 image = p / inner, place = p % inner;
      const auto vector = reinterpret_cast<const RowVector<T>*>(x)[(image * a.channels + channel) * inner + place];
#pragma unroll
      for (int e = 0; e < kElements; ++e) body(to_float(vector.value[e]));
    }
    return;
  }
  for (i32 i = begin + first; i < end; i += step) {
    const i64 image = i / a.inner, place = i % a.inner;
    body(to_float(x[(image * a.channels + channel) * a.inner + place]));
  }
}

// The number from which a mean is summed up, so that the mean of equal elements is exactly theirs: the first element,
// or 0 where that is infinite or NaN.
GPU_FUNCTION inline float mean_origin(float first) { return first - first == 0 ? first : 0; }

template <class T>
GPU_FUNCTION inline void moments(const MomentsArgs& a) {
  const u32 block = block_index().x, slices = static_cast<u32>(a.slices), channel = block / slices;
  const i32 count = a.outer * a.inner, begin = static_cast<i32>(block % slices) * a.slice;
  const i32 end = min_of(count, begin + min_of(a.slice, count - begin));
  float sum = 0, origin = 0;
  if (begin < end) {
    const i64 image = begin / a.inner, place = begin % a.inner;
    origin = mean_origin(to_float(static_cast<const T*>(a.x)[(image * a.channels + channel) * a.inner + place]));
  }
  for_channel<T>(a, channel, begin, end, [&](float value) { sum += value - origin; });
  const float mean = origin + block_sum(sum) / static_cast<float>(end - begin);
  float squares = 0;
  for_channel<T>(a, channel, begin, end, [&](float value) { squares = fma(value - mean, value - mean, squares); });
  squares = block_sum(squares);
  if (thread_index() != 0) return;
  a.mean[block] = mean;
  a.variance[block] = slices == 1 ? squares / static_cast<float>(end - begin) : squares;
}

// For x [1, channels, inner] whose channels are whole 16-byte vectors and fit in registers.
template <class T, RowTeam team, int kVectors>
GPU_FUNCTION inline void moments_vectors(const MomentsArgs& a) {
  const i64 row = team_row<team>();
  if (row >= a.channels) return;
  RowShare<T, team, kVectors> share(static_cast<const T*>(a.x) + row * a.inner, a.inner);
  const float count = static_cast<float>(a.inner);
  const float origin = mean_origin(to_float(static_cast<const T*>(a.x)[row * a.inner]));
  float sum = 0, squares = 0;
  share.for_each([&](float value) { sum += value - origin; });
  const float mean = origin + team_sum<team>(sum) / count;
  share.for_each([&](float value) { squares = fma(value - mean, value - mean, squares); });
  squares = team_sum<team>(squares);
  if ((team == RowTeam::kOneWave ? lane() : thread_index()) != 0) return;
  a.mean[row] = mean;
  a.variance[row] = squares / count;
}

// One thread per channel.
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

// RowKernel::vectors of backends/gpu/ops/row_kernels.h has the longest row of each.
#define GABBRO_OF_ROWS(name, Args, function, T)                                                  \
  GPU_KERNEL(name##_wave, 256, Args, function<T, gabbro::gpu::GABBRO_GPU::RowTeam::kOneWave, 4>) \
  GPU_KERNEL(name##_small, 128, Args, function<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)  \
  GPU_KERNEL(name##_block, 256, Args, function<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)  \
  GPU_KERNEL(name##_wide, 512, Args, function<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)   \
  GPU_KERNEL(name##_huge, 1024, Args, function<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 2 * sizeof(T)>)
#define GABBRO_NORMALIZE(name, T)                                                                   \
  GPU_KERNEL(normalize_rows_##name, 256, gabbro::gpu::NormalizeArgs, normalize_rows<T>)             \
  GABBRO_OF_ROWS(normalize_rows_##name, gabbro::gpu::NormalizeArgs, normalize_vectors, T)           \
  GPU_KERNEL(normalize_rows_##name##_long_wave, 256, gabbro::gpu::NormalizeArgs,                    \
             normalize_vectors<T, gabbro::gpu::GABBRO_GPU::RowTeam::kOneWave, 8>)                   \
  GPU_KERNEL(normalize_known_##name, 256, gabbro::gpu::KnownArgs, normalize_known<T>)               \
  GPU_KERNEL(normalize_known_rows_##name, 256, gabbro::gpu::KnownRowsArgs, normalize_known_rows<T>) \
  GPU_KERNEL(moments_##name, 256, gabbro::gpu::MomentsArgs, moments<T>)                             \
  GABBRO_OF_ROWS(moments_##name, gabbro::gpu::MomentsArgs, moments_vectors, T)
GABBRO_NORMALIZE(f32, float)
GABBRO_NORMALIZE(f16, gabbro::gpu::Half)
GABBRO_NORMALIZE(bf16, gabbro::gpu::BFloat)

GPU_KERNEL(moments_join, 256, gabbro::gpu::JoinMomentsArgs, moments_join)
