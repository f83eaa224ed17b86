// im2col, pooling and resizing of images: a thread an element of the result, computed in f32.
#include "kernels/conv/window.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Place {
  i32 at[3];
};
// The place of number `index` of a box of these lengths.
GPU_FUNCTION inline Place place_of(i32 index, const i32* lengths) {
  const i32 rows = index / lengths[2];
  return {{rows / lengths[1], rows % lengths[1], index % lengths[2]}};
}

// Calls body(index in x's plane) for each tap of the window of output `o` that is inside the plane.
template <class Body>
GPU_FUNCTION inline void for_taps(const WindowAxes& w, const Place& o, Body body) {
  for (i32 kd = 0; kd < w.kernel[0]; ++kd) {
    const i32 d = o.at[0] * w.stride[0] - w.padding[0] + kd * w.dilation[0];
    if (d < 0 || d >= w.in[0]) continue;
    for (i32 kh = 0; kh < w.kernel[1]; ++kh) {
      const i32 h = o.at[1] * w.stride[1] - w.padding[1] + kh * w.dilation[1];
      if (h < 0 || h >= w.in[1]) continue;
      for (i32 kw = 0; kw < w.kernel[2]; ++kw) {
        const i32 v = o.at[2] * w.stride[2] - w.padding[2] + kw * w.dilation[2];
        if (v >= 0 && v < w.in[2]) body((d * w.in[1] + h) * w.in[2] + v);
      }
    }
  }
}

GPU_FUNCTION inline i32 product(const i32* lengths) { return lengths[0] * lengths[1] * lengths[2]; }

template <class T>
GPU_FUNCTION inline void im2col(const PlaneArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const WindowAxes& w = a.window;
  const i32 outputs = product(w.out), taps = product(w.kernel), inputs = product(w.in);
  const i64 row = at / outputs, plane = row / taps;
  const Place o = place_of(static_cast<i32>(at - row * outputs), w.out);
  const Place tap = place_of(static_cast<i32>(row - plane * taps), w.kernel);
  bool inside = true;
  i32 index = 0;
  for (int i = 0; i < 3; ++i) {
    const i32 place = o.at[i] * w.stride[i] - w.padding[i] + tap.at[i] * w.dilation[i];
    inside = inside && place >= 0 && place < w.in[i];
    index = index * w.in[i] + place;
  }
  static_cast<T*>(a.y)[at] = inside ? static_cast<const T*>(a.x)[plane * inputs + index] : from_float<T>(a.value);
}

template <class T>
GPU_FUNCTION inline void pool_max(const PlaneArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i32 outputs = product(a.window.out);
  const i64 plane = at / outputs;
  const T* x = static_cast<const T*>(a.x) + plane * product(a.window.in);
  float largest = bits_to_float(0xff800000);  // -infinity
  for_taps(a.window, place_of(static_cast<i32>(at - plane * outputs), a.window.out), [&](i32 i) {
    const float value = to_float(x[i]);
    if (value > largest || value != value) largest = value;
  });
  static_cast<T*>(a.y)[at] = from_float<T>(largest);
}

template <class T>
GPU_FUNCTION inline void pool_mean(const PlaneArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i32 outputs = product(a.window.out);
  const i64 plane = at / outputs;
  const T* x = static_cast<const T*>(a.x) + plane * product(a.window.in);
  float sum = 0;
  i32 count = 0;
  for_taps(a.window, place_of(static_cast<i32>(at - plane * outputs), a.window.out), [&](i32 i) {
    sum += to_float(x[i]);
    ++count;
  });
  if (a.counts_padding != 0) count = product(a.window.kernel);
  static_cast<T*>(a.y)[at] = from_float<T>(sum / static_cast<float>(count));
}

// body(plane's first element in x, row, column) for this thread's element of y, and stores what it gives.
template <class T, class Body>
GPU_FUNCTION inline void resize(const ResizeArgs& a, Body body) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i32 outputs = a.out[0] * a.out[1];
  const i64 plane = at / outputs;
  const i32 place = static_cast<i32>(at - plane * outputs);
  const T* x = static_cast<const T*>(a.x) + plane * (static_cast<i64>(a.in[0]) * a.in[1]);
  static_cast<T*>(a.y)[at] = from_float<T>(body(x, place / a.out[1], place % a.out[1]));
}

// Output o covers the inputs from o · in / out, rounded down, to (o + 1) · in / out, rounded up.
template <class T>
GPU_FUNCTION inline void resize_mean(const ResizeArgs& a) {
  resize<T>(a, [&](const T* x, i64 row, i64 column) {
    const i64 top = row * a.in[0] / a.out[0], bottom = ((row + 1) * a.in[0] + a.out[0] - 1) / a.out[0];
    const i64 left = column * a.in[1] / a.out[1], right = ((column + 1) * a.in[1] + a.out[1] - 1) / a.out[1];
    float sum = 0;
    for (i64 i = top; i < bottom; ++i) {
      for (i64 j = left; j < right; ++j) sum += to_float(x[i * a.in[1] + j]);
    }
    return sum / static_cast<float>((bottom - top) * (right - left));
  });
}

GPU_FUNCTION inline i64 nearest(const ResizeArgs& a, int axis, i64 o) {
  if (a.step[axis] == 0) return o * a.in[axis] / a.out[axis];
  return min_of(static_cast<i32>(static_cast<float>(o) * a.step[axis]), a.in[axis] - 1);
}

template <class T>
GPU_FUNCTION inline void resize_nearest(const ResizeArgs& a) {
  resize<T>(a, [&](const T* x, i64 row, i64 column) {
    return to_float(x[nearest(a, 0, row) * a.in[1] + nearest(a, 1, column)]);
  });
}

// Between inputs `low` and `high`, by `part` of the way.
struct Between {
  i32 low, high;
  float part;
};
GPU_FUNCTION inline Between between(const ResizeArgs& a, int axis, i64 o) {
  const i32 in = a.in[axis], out = a.out[axis];
  float place;
  if (a.aligned_corners != 0) {
    place = out == 1 ? 0 : static_cast<float>(o * (in - 1)) / static_cast<float>(out - 1);
  } else if (a.step[axis] != 0) {
    place = max_of(0.0f, (static_cast<float>(o) + 0.5f) * a.step[axis] - 0.5f);
  } else {
    place = max_of(0.0f, static_cast<float>((2 * o + 1) * in - out) / static_cast<float>(2 * static_cast<i64>(out)));
  }
  const i32 low = min_of(static_cast<i32>(place), in - 1);
  return {low, min_of(low + 1, in - 1), place - static_cast<float>(low)};
}

template <class T>
GPU_FUNCTION inline void resize_bilinear(const ResizeArgs& a) {
  resize<T>(a, [&](const T* x, i64 row, i64 column) {
    const Between r = between(a, 0, row), c = between(a, 1, column);
    const T *top = x + static_cast<i64>(r.low) * a.in[1], *bottom = x + static_cast<i64>(r.high) * a.in[1];
    const float above = to_float(top[c.low]) * (1 - c.part) + to_float(top[c.high]) * c.part;
    const float below = to_float(bottom[c.low]) * (1 - c.part) + to_float(bottom[c.high]) * c.part;
    return above * (1 - r.part) + below * r.part;
  });
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_WINDOW(name, T)                                                       \
  GPU_KERNEL(im2col_##name, 256, gabbro::gpu::PlaneArgs, im2col<T>)                  \
  GPU_KERNEL(pool_max_##name, 256, gabbro::gpu::PlaneArgs, pool_max<T>)              \
  GPU_KERNEL(pool_mean_##name, 256, gabbro::gpu::PlaneArgs, pool_mean<T>)            \
  GPU_KERNEL(resize_mean_##name, 256, gabbro::gpu::ResizeArgs, resize_mean<T>)       \
  GPU_KERNEL(resize_nearest_##name, 256, gabbro::gpu::ResizeArgs, resize_nearest<T>) \
  GPU_KERNEL(resize_bilinear_##name, 256, gabbro::gpu::ResizeArgs, resize_bilinear<T>)
GABBRO_WINDOW(f32, float)
GABBRO_WINDOW(f16, gabbro::gpu::Half)
GABBRO_WINDOW(bf16, gabbro::gpu::BFloat)
