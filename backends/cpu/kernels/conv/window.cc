// im2col, pooling and resizing of images, f32. A worker takes whole rows of the result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/conv/max_pool_scan.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;

// Input row of tap [kd, kh] for the row of outputs [d, h] of a plane, or null if it is outside.
const float* row_seen(const Window& w, const float* x, int64_t d, int64_t h, int64_t kd, int64_t kh) {
  const int64_t in_d = d * w.stride[0] - w.padding[0] + kd * w.dilation[0];
  const int64_t in_h = h * w.stride[1] - w.padding[1] + kh * w.dilation[1];
  if (in_d < 0 || in_d >= w.in[0] || in_h < 0 || in_h >= w.in[1]) return nullptr;
  return x + (in_d * w.in[1] + in_h) * w.in[2];
}

// The row of outputs seen through tap kw: a part of row_seen().
ClippedRow clipped_through(const Window& w, int64_t kw) {
  return {w.in[2], kw * w.dilation[2] - w.padding[2], w.stride[2], w.out[2]};
}

class Im2col : public Kernel {
 public:
  explicit Im2col(const abi::Im2colRequest& im2col) : im2col_(im2col) {
    implementation = "im2col";
    bytes = 8.0 * static_cast<double>(im2col.planes * im2col.window.taps() * im2col.window.outputs());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    const Window& w = im2col_.window;
    const int64_t slices = im2col_.planes * w.taps() * w.out[0];  // one d, all h
    worker.parallel_for(slices, row_grain(w.out[1] * w.out[2]), [&](int64_t begin, int64_t end) {
      for (int64_t slice = begin; slice < end; ++slice) {
        const int64_t d = slice % w.out[0], tap = slice / w.out[0] % w.taps(), plane = slice / w.out[0] / w.taps();
        const int64_t kd = tap / w.kernel[2] / w.kernel[1], kh = tap / w.kernel[2] % w.kernel[1];
        const ClippedRow clipped = clipped_through(w, tap % w.kernel[2]);
        float* to = y + slice * w.out[1] * w.out[2];
        for (int64_t h = 0; h < w.out[1]; ++h, to += w.out[2]) {
          copy_clipped(clipped, row_seen(w, x + plane * w.inputs(), d, h, kd, kh), im2col_.value, to);
        }
      }
    });
  }

 private:
  abi::Im2colRequest im2col_;
};

class Pool : public Kernel {
 public:
  explicit Pool(const abi::PoolRequest& pool) : pool_(pool) {
    if (pool.largest && pool.window.out[2] < kShortRow) largest_.emplace(pool.window);
    implementation = pool.largest ? "pool max" : "pool mean";
    bytes = 4.0 * static_cast<double>(pool.planes * (pool.window.inputs() + pool.window.outputs()));
    flops = static_cast<double>(pool.planes * pool.window.outputs() * pool.window.taps());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    const Window& w = pool_.window;
    if (largest_) {
      worker.parallel_for(pool_.planes, row_grain(w.inputs()), [&](int64_t begin, int64_t end) {
        const float* from = x + begin * w.inputs();
        largest_->for_each(from, end - begin, [to = y + begin * w.outputs(), from](int64_t output, int64_t place) {
          to[output] = place < 0 ? -std::numeric_limits<float>::infinity() : from[place];
        });
      });
      return;
    }
    worker.parallel_for(pool_.planes * w.out[0] * w.out[1], row_grain(w.out[2] * w.taps()),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            const int64_t h = row % w.out[1], d = row / w.out[1] % w.out[0];
                            pool_row(x + row / w.out[1] / w.out[0] * w.inputs(), d, h, y + row * w.out[2]);
                          }
                        });
  }

 private:
  // In shorter rows of outputs, a loop over the outputs of a tap costs more than its work.
  static constexpr int64_t kShortRow = 8;

  // Tap by tap for a row of outputs.
  void pool_row(const float* x, int64_t d, int64_t h, float* y) const {
    const Window& w = pool_.window;
    std::fill_n(y, w.out[2], pool_.largest ? -std::numeric_limits<float>::infinity() : 0.0f);
    int64_t rows = 0;  // of taps that are inside
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        const float* from = row_seen(w, x, d, h, kd, kh);
        if (from == nullptr) continue;
        ++rows;
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
          if (w.stride[2] == 2) {  // which the compiler has vectors for
            pool_tap(
                clipped_through(w, kw), from, [](int64_t o) { return 2 * o; }, y);
          } else {
            pool_tap(
                clipped_through(w, kw), from, [step = w.stride[2]](int64_t o) { return step * o; }, y);
          }
        }
      }
    }
    if (!pool_.largest) divide(rows, y);
  }

  template <class Place>
  void pool_tap(const ClippedRow& clipped, const float* from, Place place, float* y) const {
    const int64_t left = clipped.left, end = clipped.end;
    if (pool_.largest) {
      for (int64_t o = clipped.begin; o < end; ++o) {
        const float value = from[left + place(o)];
        y[o] = value > y[o] || value != value ? value : y[o];
      }
    } else {
      for (int64_t o = clipped.begin; o < end; ++o) y[o] += from[left + place(o)];
    }
  }

  // Sums of `rows` rows of taps to means.
  void divide(int64_t rows, float* y) const {
    const Window& w = pool_.window;
    for (int64_t o = 0; o < w.out[2]; ++o) {
      int64_t inside = 0;
      for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
        const int64_t at = o * w.stride[2] - w.padding[2] + kw * w.dilation[2];
        inside += at >= 0 && at < w.in[2];
      }
      y[o] /= static_cast<float>(pool_.counts_padding ? w.taps() : rows * inside);
    }
  }

  abi::PoolRequest pool_;
  std::optional<MaxPoolScan> largest_;  // for short rows: a table as large as a window
};

// Between inputs `low` and `high`, by `part` of the way.
struct Between {
  int64_t low, high;
  float part;
};

class Resize : public Kernel {
 public:
  explicit Resize(const abi::ResizeRequest& resize) : resize_(resize) {
    constexpr const char* kNames[] = {"resize mean", "resize nearest", "resize bilinear"};
    implementation = kNames[resize.mode];
    bytes = 4.0 * static_cast<double>(resize.planes * (resize.in[0] * resize.in[1] + resize.out[0] * resize.out[1]));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    const int64_t height = resize_.out[0], width = resize_.out[1], inputs = resize_.in[0] * resize_.in[1];
    worker.parallel_for(resize_.planes * height, row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* plane = x + row / height * inputs;
        for (int64_t column = 0; column < width; ++column)
          y[row * width + column] = resized(plane, row % height, column);
      }
    });
  }

 private:
  float resized(const float* x, int64_t row, int64_t column) const {
    const int64_t width = resize_.in[1];
    if (resize_.mode == 0) return mean(x, row, column);
    if (resize_.mode == 1) return x[nearest(0, row) * width + nearest(1, column)];
    const Between r = between(0, row), c = between(1, column);
    const float *top = x + r.low * width, *bottom = x + r.high * width;
    const float above = top[c.low] * (1 - c.part) + top[c.high] * c.part;
    const float below = bottom[c.low] * (1 - c.part) + bottom[c.high] * c.part;
    return above * (1 - r.part) + below * r.part;
  }

  static float row_sum(const float* x, int64_t count) {
    F32 lanes = zero_f32();
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) lanes += load(x + i);
    float sum = i > 0 ? reduce_sum(lanes) : 0;
    for (; i < count; ++i) sum += x[i];
    return sum;
  }

  // Output o covers the inputs from o · in / out, rounded down, to (o + 1) · in / out, rounded up.
  float mean(const float* x, int64_t row, int64_t column) const {
    const auto [height, width] = resize_.in;
    const auto [rows, columns] = resize_.out;
    const int64_t top = row * height / rows, bottom = ((row + 1) * height + rows - 1) / rows;
    const int64_t left = column * width / columns, right = ((column + 1) * width + columns - 1) / columns;
    double sum = 0;  // of the rows, so that the errors of large windows do not grow with their number
    for (int64_t i = top; i < bottom; ++i) sum += row_sum(x + i * width + left, right - left);
    return static_cast<float>(sum / static_cast<double>((bottom - top) * (right - left)));
  }

  int64_t nearest(int axis, int64_t o) const {
    const float step = resize_.step[axis];
    if (step == 0) return o * resize_.in[axis] / resize_.out[axis];
    return std::min(static_cast<int64_t>(static_cast<float>(o) * step), resize_.in[axis] - 1);
  }

  Between between(int axis, int64_t o) const {
    const int64_t in = resize_.in[axis], out = resize_.out[axis];
    const float step = resize_.step[axis];
    float place;
    if (resize_.aligned_corners) {
      place = out == 1 ? 0 : static_cast<float>(o * (in - 1)) / static_cast<float>(out - 1);
    } else if (step != 0) {
      place = std::max(0.0f, (static_cast<float>(o) + 0.5f) * step - 0.5f);
    } else {
      place = std::max(0.0f, static_cast<float>((2 * o + 1) * in - out) / static_cast<float>(2 * out));
    }
    const int64_t low = std::min(static_cast<int64_t>(place), in - 1);
    return {low, std::min(low + 1, in - 1), place - static_cast<float>(low)};
  }

  abi::ResizeRequest resize_;
};

}  // namespace

std::unique_ptr<Kernel> make_im2col(const abi::KernelRequest& request, const MakeContext&) {
  abi::Im2colRequest im2col;
  if (!read_im2col(request, im2col) || im2col.dtype != DType::f32) return nullptr;
  return std::make_unique<Im2col>(im2col);
}

std::unique_ptr<Kernel> make_pool(const abi::KernelRequest& request, const MakeContext&) {
  abi::PoolRequest pool;
  if (!read_pool(request, pool) || pool.dtype != DType::f32) return nullptr;
  return std::make_unique<Pool>(pool);
}

std::unique_ptr<Kernel> make_resize(const abi::KernelRequest& request, const MakeContext&) {
  abi::ResizeRequest resize;
  if (!read_resize(request, resize) || resize.dtype != DType::f32) return nullptr;
  return std::make_unique<Resize>(resize);
}

}  // namespace gabbro::cpu::GABBRO_ISA
