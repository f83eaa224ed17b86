// Convolutions of images of few output channels, f32; conv_product.cc has the others. A worker makes a row of outputs
// of kTogether channels, a vector at a time: each vector of inputs that is loaded is multiplied by the weights of all
// these channels.
#include <algorithm>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;

constexpr int64_t kTogether = 4;

double products(const abi::ConvRequest& conv) {
  return static_cast<double>(conv.images * conv.groups * conv.out_channels * conv.in_channels) *
         static_cast<double>(conv.window.taps() * conv.window.outputs());
}

class Conv : public Kernel {
 public:
  explicit Conv(const abi::ConvRequest& conv) : conv_(conv) {
    implementation = "conv";
    flops = 2 * products(conv);
    bytes = 4.0 *
            static_cast<double>(conv.images * conv.groups *
                                (conv.in_channels * conv.window.inputs() + conv.out_channels * conv.window.outputs()));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const Window& w = conv_.window;
    const int64_t blocks = (conv_.out_channels + kTogether - 1) / kTogether, rows = w.out[0] * w.out[1];
    const int64_t work = w.out[2] * conv_.in_channels * w.taps();
    worker.parallel_for(conv_.images * conv_.groups * blocks * rows, row_grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item)
        make_row(launch, item / rows / blocks, item / rows % blocks * kTogether, item % rows);
    });
  }

 private:
  void make_row(const abi::Launch& launch, int64_t batch, int64_t channel, int64_t row) const {
    const Window& w = conv_.window;
    const int64_t channels = std::min(kTogether, conv_.out_channels - channel), depth = conv_.in_channels * w.taps();
    const int64_t first_channel = batch % conv_.groups * conv_.out_channels + channel;
    const auto* x = static_cast<const float*>(launch.inputs[0].data) + batch * conv_.in_channels * w.inputs();
    const auto* weight = static_cast<const float*>(launch.inputs[1].data) + first_channel * depth;
    const auto* bias = conv_.bias ? static_cast<const float*>(launch.inputs[2].data) + first_channel : nullptr;
    auto* y = static_cast<float*>(launch.outputs[0].data) + (batch * conv_.out_channels + channel) * w.outputs() +
              row * w.out[2];
    // Behind the last channel the last one is computed again, and left out.
    int64_t weights_at[kTogether];
    for (int64_t i = 0; i < kTogether; ++i) weights_at[i] = std::min(i, channels - 1) * depth;
    for (int64_t o = 0; o < w.out[2]; o += kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, w.out[2] - o));
      F32 sums[kTogether];
      for (int64_t i = 0; i < kTogether; ++i) sums[i] = splat(bias == nullptr || i >= channels ? 0 : bias[i]);
      for_taps(row, [&](int64_t tap, int64_t row_at, int64_t first) {
        const int64_t left = first + o * w.stride[2];
        const bool whole = w.stride[2] == 1 && count == kLanes && left >= 0 && left + kLanes <= w.in[2];
        for (int64_t c = 0; c < conv_.in_channels; ++c) {
          const float* from = x + c * w.inputs() + row_at;
          const F32 values = whole ? load(from + left) : load_columns(from, left, count);
          for (int64_t i = 0; i < kTogether; ++i)
            sums[i] = fma(splat(weight[weights_at[i] + c * w.taps() + tap]), values, sums[i]);
        }
      });
      for (int64_t i = 0; i < channels; ++i) store_some(y + i * w.outputs() + o, sums[i], count);
    }
  }

  // body(the tap's number, where its row begins in a plane of x, the column that output 0 sees), for the rows inside.
  template <class Body>
  void for_taps(int64_t row, Body body) const {
    const Window& w = conv_.window;
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      const int64_t d = row / w.out[1] * w.stride[0] - w.padding[0] + kd * w.dilation[0];
      if (d < 0 || d >= w.in[0]) continue;
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        const int64_t h = row % w.out[1] * w.stride[1] - w.padding[1] + kh * w.dilation[1];
        if (h < 0 || h >= w.in[1]) continue;
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
          body((kd * w.kernel[1] + kh) * w.kernel[2] + kw, (d * w.in[1] + h) * w.in[2],
               kw * w.dilation[2] - w.padding[2]);
        }
      }
    }
  }

  // What `count` outputs see, from column `left` on; zeros outside.
  F32 load_columns(const float* row, int64_t left, int count) const {
    const Window& w = conv_.window;
    float lanes[kLanes] = {};
    for (int i = 0; i < count; ++i) {
      const int64_t at = left + i * w.stride[2];
      if (at >= 0 && at < w.in[2]) lanes[i] = row[at];
    }
    return load(lanes);
  }

  abi::ConvRequest conv_;
};

// The element of y at p gets x at o times the weight of tap t wherever p = o · stride - padding + t · dilation. A
// worker makes planes: it adds to them what each element of x gives.
class ConvTranspose : public Kernel {
 public:
  explicit ConvTranspose(const abi::ConvRequest& conv) : conv_(conv) {
    implementation = "conv_transpose";
    flops = 2 * products(conv);
    bytes = 4.0 *
            static_cast<double>(conv.images * conv.groups *
                                (conv.in_channels * conv.window.outputs() + conv.out_channels * conv.window.inputs()));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    worker.parallel_for(conv_.images * conv_.groups * conv_.out_channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) make_plane(launch, plane);
    });
  }

 private:
  void make_plane(const abi::Launch& launch, int64_t plane) const {
    const Window& w = conv_.window;
    const int64_t batch = plane / conv_.out_channels, channel = plane % conv_.out_channels;
    const int64_t group = batch % conv_.groups;
    const auto* x = static_cast<const float*>(launch.inputs[0].data) + batch * conv_.in_channels * w.outputs();
    const auto* weight = static_cast<const float*>(launch.inputs[1].data) +
                         (group * conv_.in_channels * conv_.out_channels + channel) * w.taps();
    auto* y = static_cast<float*>(launch.outputs[0].data) + plane * w.inputs();
    const auto* bias = conv_.bias ? static_cast<const float*>(launch.inputs[2].data) : nullptr;
    std::fill_n(y, w.inputs(), bias == nullptr ? 0 : bias[group * conv_.out_channels + channel]);
    for (int64_t c = 0; c < conv_.in_channels; ++c) {
      const float* taps = weight + c * conv_.out_channels * w.taps();
      for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
        add_row(x + c * w.outputs() + row * w.out[2], taps, row / w.out[1], row % w.out[1], y);
      }
    }
  }

  void add_row(const float* x, const float* taps, int64_t d, int64_t h, float* y) const {
    const Window& w = conv_.window;
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      const int64_t at_d = d * w.stride[0] - w.padding[0] + kd * w.dilation[0];
      if (at_d < 0 || at_d >= w.in[0]) continue;
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        const int64_t at_h = h * w.stride[1] - w.padding[1] + kh * w.dilation[1];
        if (at_h < 0 || at_h >= w.in[1]) continue;
        float* to = y + (at_d * w.in[1] + at_h) * w.in[2];
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
          const float factor = taps[(kd * w.kernel[1] + kh) * w.kernel[2] + kw];
          const int64_t first = kw * w.dilation[2] - w.padding[2];
          for (int64_t o = 0; o < w.out[2]; ++o) {
            const int64_t at = first + o * w.stride[2];
            if (at >= 0 && at < w.in[2]) to[at] += factor * x[o];
          }
        }
      }
    }
  }

  abi::ConvRequest conv_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv) || conv.dtype != DType::f32) return nullptr;
  if (auto product = make_conv_product(conv, false, context.workers)) return product;
  return std::make_unique<Conv>(conv);
}

std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_transpose(request, conv) || conv.dtype != DType::f32) return nullptr;
  if (auto product = make_conv_product(conv, true, context.workers)) return product;
  return std::make_unique<ConvTranspose>(conv);
}

}  // namespace gabbro::cpu::GABBRO_ISA
