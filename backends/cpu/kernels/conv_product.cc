// Convolutions and transposed ones as products of matrices of which one is never whole, f32: weights [O, C · taps]
// times what each output sees, gathered a panel of columns at a time. A transposed convolution is one product for each
// remainder of its outputs by the stride: these see the same taps, and inputs that lie beside each other.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/product_tile.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;
using Lengths = std::array<int64_t, 3>;

constexpr int64_t kPanel = kTileVectors * kLanes;
constexpr int64_t kDepth = 256;        // rows of a panel, which stays in the L1 cache; more where a channel has more
constexpr int64_t kRowBlock = 192;     // channels that share a gathered panel
constexpr int64_t kLeastChannels = 8;  // that make gathering worth it
constexpr int64_t kGrain = 1 << 16;    // products that a worker takes at a time, at least

// Outputs that see the same taps: of a convolution all.
struct Phase {
  Lengths first{}, count{};      // along each axis of y: from `first` on, every `out_step`
  std::vector<Lengths> taps;     // where tap t of output q lies in x: q · in_step + taps[t]
  std::vector<int64_t> weights;  // the number of each tap
  int64_t weights_at = 0;        // of the packed weights, elements before this phase's
  int64_t panels = 0;
  int64_t outputs() const { return count[0] * count[1] * count[2]; }
  int64_t tap_count() const { return static_cast<int64_t>(taps.size()); }
};

class ConvProduct : public Kernel {
 public:
  ConvProduct(const abi::ConvRequest& conv, bool transposed, int workers) : conv_(conv), transposed_(transposed) {
    const Window& w = conv.window;
    std::copy_n(transposed ? w.out : w.in, 3, x_.begin());
    std::copy_n(transposed ? w.in : w.out, 3, y_.begin());
    for (int i = 0; i < 3; ++i) (transposed ? out_step_ : in_step_)[i] = w.stride[i];
    if (transposed) {
      for (int64_t d = 0; d < w.stride[0]; ++d)
        for (int64_t h = 0; h < w.stride[1]; ++h)
          for (int64_t v = 0; v < w.stride[2]; ++v) add_phase({d, h, v});
      packed_floats_ = conv.out_channels * conv.in_channels * w.taps();
    } else {
      add_phase({});
    }
    for (const Phase& phase : phases_) panels_ += phase.panels;
    scratch_bytes = static_cast<size_t>(workers * worker_floats()) * sizeof(float);
    implementation = transposed ? "conv_transpose product" : "conv product";
    const int64_t seen = x_[0] * x_[1] * x_[2], made = y_[0] * y_[1] * y_[2];
    flops = 2.0 * static_cast<double>(conv.images * conv.groups * conv.out_channels * conv.in_channels) *
            static_cast<double>(w.taps() * w.outputs());
    bytes = 4.0 * static_cast<double>(conv.images * conv.groups * (conv.in_channels * seen + conv.out_channels * made));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats();
    const int64_t blocks = (conv_.out_channels + kRowBlock - 1) / kRowBlock;
    const int64_t work = std::min(kRowBlock, conv_.out_channels) * conv_.in_channels * conv_.window.taps() * kPanel;
    bool packed = false;
    worker.parallel_for(conv_.images * conv_.groups * blocks * panels_, std::max<int64_t>(1, kGrain / work),
                        [&](int64_t begin, int64_t end) {
                          if (transposed_ && !packed) pack(static_cast<const float*>(launch.inputs[1].data), scratch);
                          packed = true;
                          for (int64_t item = begin; item < end; ++item) {
                            const int64_t batch = item / (blocks * panels_);
                            make_panel(launch, batch, item / panels_ % blocks * kRowBlock, item % panels_, scratch);
                          }
                        });
  }

 private:
  int64_t panel_rows() const { return std::max(kDepth, conv_.window.taps()); }
  int64_t worker_floats() const { return (panel_rows() + kRowBlock) * kPanel + packed_floats_; }

  // The outputs with these remainders.
  void add_phase(const Lengths& first) {
    const Window& w = conv_.window;
    Phase phase{.first = first};
    for (int i = 0; i < 3; ++i) phase.count[i] = (y_[i] - first[i] + out_step_[i] - 1) / out_step_[i];
    if (*std::ranges::min_element(phase.count) <= 0) return;
    for (int64_t tap = 0; tap < w.taps(); ++tap) {
      const Lengths at{tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]};
      Lengths from{};
      bool seen = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t moved = first[i] + w.padding[i] - at[i] * w.dilation[i];
        from[i] = transposed_ ? moved / out_step_[i] : -moved;
        seen = seen && (!transposed_ || moved % out_step_[i] == 0);
      }
      if (!seen) continue;
      phase.taps.push_back(from);
      phase.weights.push_back(tap);
    }
    if (!phases_.empty()) {
      const Phase& last = phases_.back();
      phase.weights_at = last.weights_at + last.tap_count() * conv_.in_channels * conv_.out_channels;
    }
    phase.panels = (phase.outputs() + kPanel - 1) / kPanel;
    phases_.push_back(std::move(phase));
  }

  // A transposed convolution's weights [C, O, taps] as one matrix [O, C · taps] for each phase.
  void pack(const float* weight, float* scratch) const {
    float* to = scratch + (panel_rows() + kRowBlock) * kPanel;
    for (const Phase& phase : phases_)
      for (int64_t o = 0; o < conv_.out_channels; ++o)
        for (int64_t c = 0; c < conv_.in_channels; ++c)
          for (const int64_t tap : phase.weights)
            *to++ = weight[(c * conv_.out_channels + o) * conv_.window.taps() + tap];
  }

  void make_panel(const abi::Launch& launch, int64_t batch, int64_t channel, int64_t number, float* scratch) const {
    size_t which = 0;
    while (number >= phases_[which].panels) number -= phases_[which++].panels;
    const Phase& phase = phases_[which];
    const int64_t depth = conv_.in_channels * phase.tap_count(), group = batch % conv_.groups;
    const int64_t rows = std::min(kRowBlock, conv_.out_channels - channel), first = number * kPanel;
    const int64_t columns = std::min(kPanel, phase.outputs() - first);
    float* panel = scratch;
    float* sums = scratch + panel_rows() * kPanel;
    const float* x =
        static_cast<const float*>(launch.inputs[0].data) + batch * conv_.in_channels * x_[0] * x_[1] * x_[2];
    const float* weights =
        transposed_ ? sums + kRowBlock * kPanel + phase.weights_at + channel * depth
                    : static_cast<const float*>(launch.inputs[1].data) + (group * conv_.out_channels + channel) * depth;
    const float* bias =
        conv_.bias ? static_cast<const float*>(launch.inputs[2].data) + group * conv_.out_channels + channel : nullptr;
    for (int64_t r = 0; r < rows; ++r) std::fill_n(sums + r * kPanel, kPanel, bias == nullptr ? 0 : bias[r]);
    const int64_t together = std::max<int64_t>(1, kDepth / std::max<int64_t>(1, phase.tap_count()));
    for (int64_t c = 0; c < conv_.in_channels; c += together) {
      const int64_t channels = std::min(together, conv_.in_channels - c), some = channels * phase.tap_count();
      gather(phase, x + c * x_[0] * x_[1] * x_[2], first, columns, channels, panel);
      for (int64_t r = 0; r < rows; r += kMatrixRows) {
        const ProductTile tile{weights + r * depth + c * phase.tap_count(), depth, 1, sums + r * kPanel, kPanel, true};
        product_tile(static_cast<int>(std::min<int64_t>(kMatrixRows, rows - r)), kTileVectors, tile,
                     FloatSource{panel, kPanel}, 0, some);
      }
    }
    const int64_t y_plane = y_[0] * y_[1] * y_[2];
    float* y = static_cast<float*>(launch.outputs[0].data) + (batch * conv_.out_channels + channel) * y_plane;
    for_runs(phase, first, columns, [&](int64_t column, int64_t length, const Lengths& at) {
      const int64_t row = (phase.first[0] + at[0] * out_step_[0]) * y_[1] + phase.first[1] + at[1] * out_step_[1];
      const int64_t place = row * y_[2] + phase.first[2] + at[2] * out_step_[2];
      for (int64_t r = 0; r < rows; ++r) {
        const float* from = sums + r * kPanel + column;
        float* to = y + r * y_plane + place;
        for (int64_t i = 0; i < length; ++i) to[i * out_step_[2]] = from[i];
      }
    });
  }

  // What the outputs `first` to `first` + columns see of some channels: panel [channels · taps, kPanel]. Where a tap
  // lies is found once for all channels.
  void gather(const Phase& phase, const float* x, int64_t first, int64_t columns, int64_t channels,
              float* panel) const {
    const int64_t plane = x_[0] * x_[1] * x_[2], step = in_step_[2], next = phase.tap_count() * kPanel;
    if (columns < kPanel) std::fill_n(panel, channels * next, 0.0f);
    for_runs(phase, first, columns, [&](int64_t column, int64_t length, const Lengths& at) {
      float* to = panel + column;
      for (const Lengths& tap : phase.taps) {
        const int64_t d = at[0] * in_step_[0] + tap[0], h = at[1] * in_step_[1] + tap[1], left = at[2] * step + tap[2];
        const bool inside = d >= 0 && d < x_[0] && h >= 0 && h < x_[1];
        // Outputs [begin, end) see elements of the row, the others what lies beside it.
        const int64_t begin = inside ? std::clamp<int64_t>((step - 1 - left) / step, 0, length) : length;
        const int64_t end = inside ? std::clamp<int64_t>((x_[2] - left + step - 1) / step, begin, length) : length;
        const int64_t from = (d * x_[1] + h) * x_[2] + left + begin * step;
        for (int64_t c = 0; c < channels; ++c) {
          float* row = to + c * next;
          for (int64_t i = 0; i < begin; ++i) row[i] = 0;
          if (begin < end) copy(x + c * plane + from, step, end - begin, row + begin);
          for (int64_t i = end; i < length; ++i) row[i] = 0;
        }
        to += kPanel;
      }
    });
  }

  // In pieces whose lengths the compiler knows: the rows of small images are too short for a call.
  static void copy(const float* from, int64_t step, int64_t count, float* to) {
    int64_t i = 0;
    if (step == 1) {
      for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
      if (i + 8 <= count) std::copy_n(from + i, 8, to + i), i += 8;
      if (i + 4 <= count) std::copy_n(from + i, 4, to + i), i += 4;
    }
    for (; i < count; ++i) to[i] = from[i * step];
  }

  // body(column, length, output) for the runs along the last axis that the outputs consist of.
  template <class Body>
  void for_runs(const Phase& phase, int64_t first, int64_t columns, Body body) const {
    for (int64_t column = 0; column < columns;) {
      const int64_t q = first + column, along = q % phase.count[2], row = q / phase.count[2];
      const int64_t length = std::min(columns - column, phase.count[2] - along);
      body(column, length, Lengths{row / phase.count[1], row % phase.count[1], along});
      column += length;
    }
  }

  abi::ConvRequest conv_;
  bool transposed_;
  Lengths x_{}, y_{};                             // lengths of the images
  Lengths in_step_{1, 1, 1}, out_step_{1, 1, 1};  // of x and of y, between outputs of a phase
  std::vector<Phase> phases_;
  int64_t panels_ = 0;
  int64_t packed_floats_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_product(const abi::ConvRequest& conv, bool transposed, int workers) {
  if (conv.out_channels < kLeastChannels || (transposed && conv.groups > 1)) return nullptr;
  return std::make_unique<ConvProduct>(conv, transposed, workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
