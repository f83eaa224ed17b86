// Depthwise convolutions of images of at most eight columns, f32, whose rows would leave half of a vector's lanes idle:
// the lanes are neighboring channels. Their inputs and weights are transposed, x with rows of zeros above and below, so
// that vertically adjacent taps are adjacent rows (depthwise_tile.h); taps left and right of x are skipped.
#include <algorithm>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/depthwise_tile.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;

constexpr int64_t kColumns = 8;         // of x at most: what is transposed at once
constexpr int64_t kMostCopy = 1 << 13;  // floats of a block's copy: more than a few small rows
constexpr int64_t kGrain = 1 << 16;     // products that a worker takes at a time, at least
static_assert(kColumns * kLanes <= kDepthwisePitch && kLanes % 8 == 0);

class SmallDepthwiseConv : public Kernel {
 public:
  SmallDepthwiseConv(const abi::ConvRequest& conv, int workers)
      : conv_(conv),
        copied_rows_(conv.window.out[1] + conv.window.kernel[1] - 1),
        blocks_(pieces(conv.groups, kLanes)) {
    plan_runs();
    scratch_bytes = static_cast<size_t>(workers * worker_floats()) * sizeof(float);
    implementation = "conv depthwise small";
    const Window& w = conv.window;
    flops = 2.0 * static_cast<double>(conv.images * conv.groups) * static_cast<double>(w.taps() * w.outputs());
    bytes = 4.0 * static_cast<double>(conv.images * conv.groups * (w.inputs() + w.outputs()));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const Window& w = conv_.window;
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats();
    const int64_t work = kLanes * w.taps() * w.outputs();
    worker.parallel_for(blocks_ * conv_.images, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      std::fill_n(scratch, copy_floats(), 0.0f);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item / conv_.images * kLanes;
        const int64_t channels = std::min<int64_t>(kLanes, conv_.groups - first);
        if (item == begin || item % conv_.images == 0) read_weights(launch, first, channels, scratch);
        const int64_t plane = item % conv_.images * conv_.groups + first;
        copy_in(static_cast<const float*>(launch.inputs[0].data), plane, channels, scratch);
        make(scratch);
        write(scratch, channels, static_cast<float*>(launch.outputs[0].data) + plane * w.outputs());
      }
    });
  }

 private:
  // Sizes of a worker's scratch: x, weights, bias, y.
  int64_t copy_floats() const { return copied_rows_ * kDepthwisePitch; }
  int64_t weight_floats() const { return conv_.window.taps() * kLanes; }
  int64_t worker_floats() const { return copy_floats() + weight_floats() + kLanes + conv_.window.outputs() * kLanes; }

  // For each column of y: the taps that see a column of x; all other terms are zeros.
  void plan_runs() {
    const Window& w = conv_.window;
    longest_ = longest_run(w.kernel[1]);
    for (int64_t column = 0; column < w.out[2]; ++column) {
      std::vector<TapRun> longer, shorter;
      for (int64_t along = 0; along < w.kernel[2]; ++along) {
        const int64_t clipped = column * w.stride[2] - w.padding[2] + along * w.dilation[2];
        if (clipped < 0 || clipped >= w.in[2]) continue;
        cut_taps(w.kernel[1], pieces(w.kernel[1], kDepthwiseTaps), [&](int64_t taps, int64_t first) {
          const TapRun run{.at = first * kDepthwisePitch + clipped * kLanes,
                           .weight = (first * w.kernel[2] + along) * kLanes};
          (taps == longest_ ? longer : shorter).push_back(run);
        });
      }
      columns_.push_back({runs_.size(), runs_.size() + longer.size(), runs_.size() + longer.size() + shorter.size()});
      runs_.insert(runs_.end(), longer.begin(), longer.end());
      runs_.insert(runs_.end(), shorter.begin(), shorter.end());
    }
  }

  // `rows` rows of eight elements that may be read, `step` apart; the first `columns` are used: to
  // [column][kLanes].
  static void to_lanes(const float* from, int64_t step, int64_t rows, float* to) {
    for (int64_t r = 0; r < rows; r += 8) {
      transpose_eights(from + r * step, step, static_cast<int>(std::min<int64_t>(8, rows - r)), to + r, kLanes);
    }
  }

  static void to_lanes_one_by_one(const float* from, int64_t step, int64_t rows, int64_t columns, float* to) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t r = 0; r < rows; ++r) to[column * kLanes + r] = from[r * step + column];
    }
  }

  void read_weights(const abi::Launch& launch, int64_t first, int64_t channels, float* scratch) const {
    const int64_t taps = conv_.window.taps();
    const auto* weights = static_cast<const float*>(launch.inputs[1].data) + first * taps;
    float *to = scratch + copy_floats(), *bias = to + weight_floats();
    int64_t tap = 0;
    for (; tap + 8 <= taps; tap += 8) to_lanes(weights + tap, taps, channels, to + tap * kLanes);
    to_lanes_one_by_one(weights + tap, taps, channels, taps - tap, to + tap * kLanes);
    std::fill_n(bias, kLanes, 0.0f);
    if (conv_.bias) std::copy_n(static_cast<const float*>(launch.inputs[2].data) + first, channels, bias);
  }

  void copy_in(const float* x, int64_t plane, int64_t channels, float* to) const {
    const Window& w = conv_.window;
    const float* end = x + conv_.images * conv_.groups * w.inputs();
    const int64_t step = w.inputs();
    x += plane * step;
    for (int64_t row = 0; row < w.in[1]; ++row) {
      const int64_t copied = row + w.padding[1];
      if (copied >= copied_rows_) return;
      const float* from = x + row * w.in[2];
      if (from + (channels - 1) * step + kColumns <= end) {
        to_lanes(from, step, channels, to + copied * kDepthwisePitch);
      } else {
        to_lanes_one_by_one(from, step, channels, w.in[2], to + copied * kDepthwisePitch);
      }
    }
  }

  void make(float* scratch) const {
    const Window& w = conv_.window;
    const float *weights = scratch + copy_floats(), *bias = weights + weight_floats();
    float* y = scratch + copy_floats() + weight_floats() + kLanes;
    const int64_t most = pieces(w.out[1], pieces(w.out[1], kDepthwiseRows));  // tiles of about the same height
    for (int64_t row = 0; row < w.out[1]; row += most) {
      const int64_t rows = std::min(most, w.out[1] - row);
      const MakeDepthwiseRows make_rows =
          kMakeDepthwiseRows<Lanes::kChannels>[static_cast<size_t>((rows - 1) * kDepthwiseTaps + longest_ - 1)];
      for (int64_t column = 0; column < w.out[2]; ++column) {
        const Column& at = columns_[static_cast<size_t>(column)];
        const TapRuns runs{.begin = runs_.data() + at.begin,
                           .shorter = runs_.data() + at.shorter,
                           .end = runs_.data() + at.end,
                           .weights = weights,
                           .weight_step = w.kernel[2] * kLanes,
                           .bias = load(bias)};
        make_rows(runs, scratch + row * kDepthwisePitch, kLanes, y + (row * w.out[2] + column) * kLanes,
                  w.out[2] * kLanes);
      }
    }
  }

  // [outputs][kLanes] to the channels of y.
  void write(const float* scratch, int64_t channels, float* y) const {
    const int64_t outputs = conv_.window.outputs();
    const float* from = scratch + copy_floats() + weight_floats() + kLanes;
    const int64_t whole = outputs < 8 ? 0 : channels / 8 * 8;
    for (int64_t channel = 0; channel < whole; channel += 8) {
      for (int64_t at = 0;; at = std::min(at + 8, outputs - 8)) {
        transpose_eights(from + at * kLanes + channel, kLanes, 8, y + channel * outputs + at, outputs);
        if (at == outputs - 8) break;
      }
    }
    for (int64_t channel = whole; channel < channels; ++channel) {
      for (int64_t at = 0; at < outputs; ++at) y[channel * outputs + at] = from[at * kLanes + channel];
    }
  }

  // Ranges of runs_ for one column of y, the shorter ones last.
  struct Column {
    size_t begin, shorter, end;
  };

  abi::ConvRequest conv_;
  int64_t copied_rows_, blocks_;
  int64_t longest_ = 0;
  std::vector<TapRun> runs_;
  std::vector<Column> columns_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_depthwise_small(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv) || conv.dtype != DType::f32) return nullptr;
  const Window& w = conv.window;
  if (conv.in_channels != 1 || conv.out_channels != 1 || conv.groups < kLanes) return nullptr;
  if (w.kernel[0] != 1 || w.in[0] != 1 || w.out[0] != 1 || w.stride[1] != 1 || w.dilation[1] != 1) return nullptr;
  if (w.in[2] > kColumns || w.outputs() == 0 || w.taps() == 0) return nullptr;
  if ((w.out[1] + w.kernel[1] - 1) * kDepthwisePitch > kMostCopy) return nullptr;
  return std::make_unique<SmallDepthwiseConv>(conv, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
