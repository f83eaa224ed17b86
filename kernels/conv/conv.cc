// Convolutions of images, in f32. conv_tiled is a matrix product, weights [out_channels, in_channels · taps] by columns
// that are never made: a block makes a tile of channels by outputs out of panels in shared memory. conv_direct and
// conv_transpose give each element of the result to a thread: for groups of few channels. conv_bias follows the
// convolution of a library.
#include "kernels/conv/window.h"
#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr int kDepth = 16, kSide = 16, kEach = kConvTile / kSide;  // a thread kEach by kEach elements

GPU_FUNCTION inline i32 product(const i32* lengths) { return lengths[0] * lengths[1] * lengths[2]; }

// Number `index` of a box of these lengths, along each axis.
struct Place {
  i32 at[3];
};
GPU_FUNCTION inline Place place_of(i32 index, const i32* lengths) {
  const i32 rows = index / lengths[2];
  return {{rows / lengths[1], rows % lengths[1], index % lengths[2]}};
}

// Index in x's plane of the input that a tap of an output reads, or -1 outside.
GPU_FUNCTION inline i32 seen(const WindowAxes& w, const Place& o, i32 tap) {
  const Place t = place_of(tap, w.kernel);
  i32 index = 0;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const i32 place = o.at[i] * w.stride[i] - w.padding[i] + t.at[i] * w.dilation[i];
    if (place < 0 || place >= w.in[i]) return -1;
    index = index * w.in[i] + place;
  }
  return index;
}

inline constexpr int kPanelPitch = kConvTile + 1;  // neighboring rows of a panel begin in different banks

// Adds the product of two panels [kDepth][kPanelPitch]. Thread (tx, ty) has each kSide'th output and channel of the
// tile.
GPU_FUNCTION inline void multiply_panels(const float* weights, const float* columns, int tx, int ty,
                                         float (&sums)[kEach][kEach]) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    float left[kEach], right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      left[i] = weights[k * kPanelPitch + ty + i * kSide];
      right[i] = columns[k * kPanelPitch + tx + i * kSide];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] = fma(left[i], right[j], sums[i][j]);
    }
  }
}

template <class T>
GPU_FUNCTION inline void conv_tiled(const ConvArgs& a) {
  constexpr int kLoads = kConvTile * kDepth / (kSide * kSide);
  GPU_SHARED(float, weights, kDepth* kPanelPitch);
  GPU_SHARED(float, columns, kDepth* kPanelPitch);
  const WindowAxes& w = a.window;
  const i32 outputs = product(w.out), taps = product(w.kernel), inputs = product(w.in), depth = a.in_channels * taps;
  const u32 tiles = a.channel_tiles * a.output_tiles, batch = block_index().x / tiles, tile = block_index().x % tiles;
  const i32 channel = static_cast<i32>(tile / a.output_tiles) * kConvTile;
  const i32 output = static_cast<i32>(tile % a.output_tiles) * kConvTile;
  const i32 group = static_cast<i32>(batch) % a.groups;
  const T* x = static_cast<const T*>(a.x) + static_cast<i64>(batch) * a.in_channels * inputs;
  const T* weight = static_cast<const T*>(a.weight) + static_cast<i64>(group) * a.out_channels * depth;
  const int thread = static_cast<int>(thread_index()), tx = thread % kSide, ty = thread / kSide;
  // Neighboring threads load neighboring outputs, each thread always the same one; and neighboring weights of a row.
  const i32 my_output = output + thread % kConvTile;
  const Place my_place = place_of(my_output < outputs ? my_output : 0, w.out);
  float sums[kEach][kEach] = {};
  for (i32 from = 0; from < depth; from += kDepth) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int number = thread + i * kSide * kSide;
      const i32 weight_depth = from + number % kDepth, row = channel + number / kDepth;
      const bool inside = weight_depth < depth && row < a.out_channels;
      weights[number % kDepth * kPanelPitch + number / kDepth] =
          inside ? to_float(weight[static_cast<i64>(row) * depth + weight_depth]) : 0;
      const i32 column_depth = from + number / kConvTile, c = column_depth / taps;
      const i32 index = column_depth < depth && my_output < outputs ? seen(w, my_place, column_depth - c * taps) : -1;
      columns[number / kConvTile * kPanelPitch + number % kConvTile] =
          index < 0 ? 0 : to_float(x[static_cast<i64>(c) * inputs + index]);
    }
    barrier();
    multiply_panels(weights, columns, tx, ty, sums);
    barrier();
  }
  T* y = static_cast<T*>(a.y) + static_cast<i64>(batch) * a.out_channels * outputs;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const i32 c = channel + ty + i * kSide;
    if (c >= a.out_channels) continue;
    const float bias = a.bias == nullptr ? 0 : a.bias[group * a.out_channels + c];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i32 o = output + tx + j * kSide;
      if (o < outputs) y[static_cast<i64>(c) * outputs + o] = from_float<T>(sums[i][j] + bias);
    }
  }
}

// Image, group and channel of the element that this thread computes.
struct Element {
  i64 batch;  // image · groups + group
  i32 channel;
  i32 group;
  i32 place;  // in the plane
};
GPU_FUNCTION inline Element element_of(const ConvArgs& a, i64 at, i32 plane) {
  const i64 row = at / plane, batch = row / a.out_channels;
  return {batch, static_cast<i32>(row - batch * a.out_channels), static_cast<i32>(batch % a.groups),
          static_cast<i32>(at - row * plane)};
}

template <class T>
GPU_FUNCTION inline void conv_direct(const ConvArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const WindowAxes& w = a.window;
  const i32 taps = product(w.kernel), inputs = product(w.in);
  const Element e = element_of(a, at, product(w.out));
  const Place o = place_of(e.place, w.out);
  const i64 out_channel = static_cast<i64>(e.group) * a.out_channels + e.channel;
  const T* x = static_cast<const T*>(a.x) + e.batch * a.in_channels * inputs;
  const T* weight = static_cast<const T*>(a.weight) + out_channel * a.in_channels * taps;
  float sum = 0;
  for (i32 tap = 0; tap < taps; ++tap) {
    const i32 index = seen(w, o, tap);
    if (index < 0) continue;
    for (i32 c = 0; c < a.in_channels; ++c)
      sum = fma(to_float(x[static_cast<i64>(c) * inputs + index]), to_float(weight[c * taps + tap]), sum);
  }
  static_cast<T*>(a.y)[at] = from_float<T>(a.bias == nullptr ? sum : sum + a.bias[out_channel]);
}

template <class T>
GPU_FUNCTION inline void conv_bias(const ConvBiasArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  T* const y = static_cast<T*>(a.y) + at;
  *y = from_float<T>(to_float(*y) + a.bias[at / a.plane % a.channels]);
}

// The element of y at p gets x at o times the weight of tap t wherever p = o · stride - padding + t · dilation.
template <class T>
GPU_FUNCTION inline void conv_transpose(const ConvArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const WindowAxes& w = a.window;
  const i32 taps = product(w.kernel), outputs = product(w.out);
  const Element e = element_of(a, at, product(w.in));
  const Place p = place_of(e.place, w.in);
  const T* x = static_cast<const T*>(a.x) + e.batch * a.in_channels * outputs;
  const T* weight =
      static_cast<const T*>(a.weight) + (static_cast<i64>(e.group) * a.in_channels * a.out_channels + e.channel) * taps;
  const i64 weight_step = static_cast<i64>(a.out_channels) * taps;
  float sum = 0;
  for (i32 tap = 0; tap < taps; ++tap) {
    const Place t = place_of(tap, w.kernel);
    i32 index = 0;
    bool inside = true;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const i32 reached = p.at[i] + w.padding[i] - t.at[i] * w.dilation[i], o = reached / w.stride[i];
      inside = inside && reached >= 0 && reached % w.stride[i] == 0 && o < w.out[i];
      index = index * w.out[i] + o;
    }
    if (!inside) continue;
    for (i32 c = 0; c < a.in_channels; ++c)
      sum = fma(to_float(x[static_cast<i64>(c) * outputs + index]), to_float(weight[c * weight_step + tap]), sum);
  }
  const i64 out_channel = static_cast<i64>(e.group) * a.out_channels + e.channel;
  static_cast<T*>(a.y)[at] = from_float<T>(a.bias == nullptr ? sum : sum + a.bias[out_channel]);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_CONV(name, T)                                                 \
  GPU_KERNEL(conv_bias_##name, 256, gabbro::gpu::ConvBiasArgs, conv_bias<T>) \
  GPU_KERNEL(conv_tiled_##name, 256, gabbro::gpu::ConvArgs, conv_tiled<T>)   \
  GPU_KERNEL(conv_direct_##name, 256, gabbro::gpu::ConvArgs, conv_direct<T>) \
  GPU_KERNEL(conv_transpose_##name, 256, gabbro::gpu::ConvArgs, conv_transpose<T>)
GABBRO_CONV(f32, float)
GABBRO_CONV(f16, gabbro::gpu::Half)
GABBRO_CONV(bf16, gabbro::gpu::BFloat)
