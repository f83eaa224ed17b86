// Convolutions and transposed convolutions as implicit GEMMs, f32: weights [O, C · taps] times the inputs of each
// output. For a band of outputs the rows of some channels are copied with their padding, grouped by their remainder by
// the stride. In the copy, a tap of neighboring outputs, also in the next row, is a run of elements, which begins
// elsewhere for each tap; the few sums that straddle the end of a row are discarded. If they are not few, there is a
// copy for each column offset of the taps, and none straddles. A transposed convolution is one GEMM for each remainder
// of its outputs by the stride: these have the same taps.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/simd.h"
#include "src/base/round_up.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;
using Lengths = std::array<int64_t, 3>;

constexpr int64_t kDepth = 256;       // channels · taps at a time, whose panels stay in the L1 cache, or one channel's
constexpr int64_t kBand = 512;        // outputs of a band, where a row has as many
constexpr int64_t kMostBands = 6;     // that are made one where few channels are copied
constexpr int64_t kRowBlock = 192;    // channels that share a copied band
constexpr int64_t kCopyCost = 8;      // of an element, in products
constexpr int64_t kPackedBand = 128;  // outputs from which on packing the weights is worth it
constexpr int64_t kKeptFloats = 1 << 18;  // of packed weights that are kept for the next band, a MiB
constexpr int64_t kGrain = 1 << 16;       // products that a worker takes at a time, at least

// Outputs that see the same taps: of a convolution all. They are made in bands of neighboring ones.
struct Phase {
  Lengths first{}, count{};      // along each axis of y: from `first` on, every `out_step`
  std::vector<Lengths> taps;     // index in x of tap t of output q: q · in_step + taps[t]
  std::vector<int64_t> weights;  // the number of each tap
  int64_t weights_at = 0;        // offset of this phase in a group's transposed weights

  int64_t rows = 1, columns = 0;  // of a band
  int64_t bands_down = 0, bands_along = 0;
  Lengths low{};  // the least of the taps
  // The copy of a channel: [depths][in_step[1]][lefts][copied_rows][pitch].
  std::vector<int64_t> depths;  // different taps along the first axis
  std::vector<int64_t> lefts;   // where copied rows begin, from low[2] on
  int64_t copied_rows = 0, pitch = 0;
  int64_t channel_floats = 0;
  std::vector<int64_t> starts;  // of the channels that are copied together, and their taps

  bool packs_rows = true;     // of the weights, which takes longer than it saves where few outputs see them
  bool keeps_packed = false;  // from one band to the next
  int64_t packed_floats = 0;  // of the channels that are copied together

  int64_t tap_count() const { return static_cast<int64_t>(taps.size()); }
  int64_t bands() const { return count[0] * bands_down * bands_along; }
  int64_t channels_together() const { return std::max<int64_t>(1, kDepth / std::max<int64_t>(1, tap_count())); }
  int64_t band_floats() const {  // of sums
    return pieces((rows - 1) * pitch + columns, kLanes) * kLanes;
  }
};

// Outputs of a phase, along its axes from `at` on.
struct Band {
  Lengths at;
  int64_t rows, columns;
};

// A copied channel's taps as the rows of a matrix.
struct ShiftedSource {
  const float* data;
  const int64_t* starts;
  F32 at(int64_t step, int j) const { return load(data + starts[step] + j * kLanes); }
};

class Conv : public Kernel {
 public:
  Conv(const abi::ConvRequest& conv, bool transposed, int workers) : conv_(conv), transposed_(transposed) {
    const Window& w = conv.window;
    std::copy_n(transposed ? w.out : w.in, 3, x_.begin());
    std::copy_n(transposed ? w.in : w.out, 3, y_.begin());
    for (int i = 0; i < 3; ++i) (transposed ? out_step_ : in_step_)[i] = w.stride[i];
    if (!transposed && w.taps() == 1 && in_step_ == Lengths{1, 1, 1} && x_ == y_) {  // rows do not matter
      x_ = y_ = {1, 1, x_[0] * x_[1] * x_[2]};
    }
    if (transposed) {
      for (int64_t d = 0; d < w.stride[0]; ++d)
        for (int64_t h = 0; h < w.stride[1]; ++h)
          for (int64_t v = 0; v < w.stride[2]; ++v) add_phase({d, h, v});
      transposed_floats_ = conv.groups * group_floats();
    } else {
      add_phase({});
    }
    for (Phase& phase : phases_) {
      bands_ += phase.bands();
      const int64_t rows = std::min(kRowBlock, conv.out_channels);
      const int64_t channels = std::min(phase.channels_together(), conv.in_channels);
      copy_floats_ = std::max(copy_floats_, channels * phase.channel_floats + kPanel);
      sum_floats_ = std::max(sum_floats_, rows * phase.band_floats());
      phase.packed_floats = packed_rows_floats(rows, channels * phase.tap_count());
      const int64_t whole = pieces(conv.in_channels, phase.channels_together()) * phase.packed_floats;
      phase.keeps_packed = whole <= kKeptFloats;
      packed_floats_ = std::max(packed_floats_, phase.keeps_packed ? whole : phase.packed_floats);
      // Rows a multiple of 4 KiB apart share a set of the L1 cache.
      phase.packs_rows = phase.band_floats() >= kPackedBand || conv.in_channels * phase.tap_count() % 1024 == 0;
    }
    scratch_bytes = static_cast<size_t>(workers * worker_floats()) * sizeof(float);
    implementation = transposed ? "conv_transpose" : "conv";
    const int64_t clipped = x_[0] * x_[1] * x_[2], made = y_[0] * y_[1] * y_[2];
    flops = 2.0 * static_cast<double>(conv.images * conv.groups * conv.out_channels * conv.in_channels) *
            static_cast<double>(w.taps() * w.outputs());
    bytes =
        4.0 * static_cast<double>(conv.images * conv.groups * (conv.in_channels * clipped + conv.out_channels * made));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats();
    const int64_t blocks = (conv_.out_channels + kRowBlock - 1) / kRowBlock;
    const int64_t outputs = y_[0] * y_[1] * y_[2] / std::max<int64_t>(1, bands_);  // of a band, on the average
    const int64_t work = std::min(kRowBlock, conv_.out_channels) * conv_.in_channels * conv_.window.taps() * outputs;
    bool weights_transposed = false;
    int64_t packed = -1;
    worker.parallel_for(conv_.images * conv_.groups * blocks * bands_,
                        std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
                          if (transposed_ && !weights_transposed) {
                            transpose_weights(static_cast<const float*>(launch.inputs[1].data),
                                              scratch + copy_floats_ + sum_floats_ + packed_floats_);
                          }
                          weights_transposed = true;
                          for (int64_t item = begin; item < end; ++item) {
                            const int64_t batch = item / (blocks * bands_);
                            make_band(launch, batch, item / bands_ % blocks * kRowBlock, item % bands_, scratch,
                                      packed);
                          }
                        });
  }

 private:
  int64_t worker_floats() const {
    return round_up(copy_floats_ + sum_floats_ + packed_floats_ + transposed_floats_, kLanes);
  }

  // The outputs with these remainders.
  void add_phase(const Lengths& first) {
    const Window& w = conv_.window;
    Phase phase{.first = first};
    for (int i = 0; i < 3; ++i) phase.count[i] = (y_[i] - first[i] + out_step_[i] - 1) / out_step_[i];
    if (*std::ranges::min_element(phase.count) <= 0) return;
    for (int64_t tap = 0; tap < w.taps(); ++tap) {
      const Lengths at{tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]};
      Lengths from{};
      bool clipped = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t moved = first[i] + w.padding[i] - at[i] * w.dilation[i];
        from[i] = transposed_ ? moved / out_step_[i] : -moved;
        clipped = clipped && (!transposed_ || moved % out_step_[i] == 0);
      }
      if (!clipped) continue;
      phase.taps.push_back(from);
      phase.weights.push_back(tap);
    }
    if (!phases_.empty()) {
      const Phase& last = phases_.back();
      phase.weights_at = last.weights_at + last.tap_count() * conv_.in_channels * conv_.out_channels;
    }
    plan_bands(phase);
    phases_.push_back(std::move(phase));
  }

  // How its outputs are cut into bands, and where in the copies of channels the taps are.
  void plan_bands(Phase& phase) const {
    // Few products of an output: larger bands, for whose copies there is as much room.
    const int64_t products = std::max<int64_t>(1, phase.tap_count() * conv_.in_channels);
    const int64_t outputs = kBand * std::clamp<int64_t>(kDepth / products, 1, kMostBands);
    phase.bands_along = pieces(phase.count[2], outputs);  // of about the same length
    phase.columns = pieces(phase.count[2], phase.bands_along);
    if (phase.bands_along > 1) phase.columns = pieces(phase.columns, kPanel) * kPanel;
    phase.bands_down = phase.bands_along > 1 ? phase.count[1] : pieces(phase.count[1], outputs / phase.columns);
    phase.rows = pieces(phase.count[1], phase.bands_down);
    phase.bands_down = pieces(phase.count[1], phase.rows);
    phase.copied_rows = phase.rows;
    phase.pitch = phase.columns;
    if (phase.taps.empty()) return;
    Lengths high = phase.low = phase.taps[0];
    for (const Lengths& tap : phase.taps) {
      for (int i = 0; i < 3; ++i) {
        phase.low[i] = std::min(phase.low[i], tap[i]);
        high[i] = std::max(high[i], tap[i]);
      }
      if (std::ranges::find(phase.depths, tap[0]) == phase.depths.end()) phase.depths.push_back(tap[0]);
    }
    phase.copied_rows += (high[1] - phase.low[1]) / in_step_[1];
    const int64_t beyond = (high[2] - phase.low[2]) / in_step_[2];
    const bool apart = beyond > 0 && copies_each_left(phase);
    const auto left_of = [&](const Lengths& tap) {
      const int64_t left = tap[2] - phase.low[2];
      return apart ? left : left % in_step_[2];
    };
    if (!apart) phase.pitch += beyond;
    for (const Lengths& tap : phase.taps) {
      if (std::ranges::find(phase.lefts, left_of(tap)) == phase.lefts.end()) phase.lefts.push_back(left_of(tap));
    }
    const auto lefts = static_cast<int64_t>(phase.lefts.size());
    const int64_t plane = phase.copied_rows * phase.pitch;
    phase.channel_floats = static_cast<int64_t>(phase.depths.size()) * in_step_[1] * lefts * plane;
    // An odd number of cache lines: channels a power of two apart would share the sets of the cache.
    phase.channel_floats = (pieces(phase.channel_floats, 16) | 1) * 16;
    for (int64_t c = 0; c < std::min(phase.channels_together(), conv_.in_channels); ++c) {
      for (const Lengths& tap : phase.taps) {
        const int64_t depth = std::ranges::find(phase.depths, tap[0]) - phase.depths.begin();
        const int64_t h = tap[1] - phase.low[1], v = tap[2] - phase.low[2], left = left_of(tap);
        const int64_t which = (depth * in_step_[1] + h % in_step_[1]) * lefts +
                              (std::ranges::find(phase.lefts, left) - phase.lefts.begin());
        phase.starts.push_back(c * phase.channel_floats + which * plane + h / in_step_[1] * phase.pitch +
                               (v - left) / in_step_[2]);
      }
    }
  }

  // Whether sums that straddle the ends of rows cost more than copies for the left ends of all taps. A row has as many
  // of the former as of the latter without the stride's remainders, divided among the stride's phases.
  bool copies_each_left(const Phase& phase) const {
    const int64_t products = phase.tap_count() * std::min(kRowBlock, conv_.out_channels);
    return phase.rows > 1 && products > kCopyCost * in_step_[2] * phase.columns;
  }

  int64_t group_floats() const { return conv_.out_channels * conv_.in_channels * conv_.window.taps(); }

  // A transposed convolution's weights [C, O, taps] as one matrix [O, C · taps] for each phase, group by group.
  void transpose_weights(const float* weight, float* to_weights) const {
    for (int64_t group = 0; group < conv_.groups; ++group) {
      const float* from = weight + group * group_floats();
      float* to = to_weights + group * group_floats();
      for (const Phase& phase : phases_)
        for (int64_t o = 0; o < conv_.out_channels; ++o)
          for (int64_t c = 0; c < conv_.in_channels; ++c)
            for (const int64_t tap : phase.weights)
              *to++ = from[(c * conv_.out_channels + o) * conv_.window.taps() + tap];
    }
  }

  void make_band(const abi::Launch& launch, int64_t batch, int64_t channel, int64_t number, float* scratch,
                 int64_t& packed_before) const {
    size_t which = 0;
    while (number >= phases_[which].bands()) number -= phases_[which++].bands();
    const Phase& phase = phases_[which];
    const Band band = band_of(phase, number);
    const int64_t depth = conv_.in_channels * phase.tap_count(), group = batch % conv_.groups;
    const int64_t rows = std::min(kRowBlock, conv_.out_channels - channel), stride = phase.band_floats();
    const int64_t columns = (band.rows - 1) * phase.pitch + band.columns;
    float *sums = scratch + copy_floats_, *packed = sums + sum_floats_;
    const float* x =
        static_cast<const float*>(launch.inputs[0].data) + batch * conv_.in_channels * x_[0] * x_[1] * x_[2];
    const float* weights =
        transposed_ ? packed + packed_floats_ + group * group_floats() + phase.weights_at + channel * depth
                    : static_cast<const float*>(launch.inputs[1].data) + (group * conv_.out_channels + channel) * depth;
    const float* bias =
        conv_.bias ? static_cast<const float*>(launch.inputs[2].data) + group * conv_.out_channels + channel : nullptr;
    const int64_t y_plane = y_[0] * y_[1] * y_[2], together = phase.channels_together();
    float* y = static_cast<float*>(launch.outputs[0].data) + (batch * conv_.out_channels + channel) * y_plane;
    // A contiguous part of y that is computed in one go needs a buffer for the sums of a partial last vector only.
    const bool direct = bias == nullptr && depth > 0 && conv_.in_channels <= together &&
                        out_step_ == Lengths{1, 1, 1} && (band.rows == 1 || phase.pitch == band.columns);
    const int64_t whole = columns / kLanes * kLanes;
    float* band_y = y + (band.at[0] * y_[1] + band.at[1]) * y_[2] + band.at[2];
    for (int64_t r = 0; r < rows && !direct; ++r) std::fill_n(sums + r * stride, stride, bias == nullptr ? 0 : bias[r]);
    const int64_t weights_number =
        (group * conv_.out_channels + channel) * static_cast<int64_t>(phases_.size()) + static_cast<int64_t>(which);
    const bool has_packed = phase.keeps_packed && packed_before == weights_number;
    packed_before = weights_number;
    for (int64_t c = 0; c < conv_.in_channels && depth > 0; c += together) {
      const int64_t channels = std::min(together, conv_.in_channels - c), some = channels * phase.tap_count();
      for (int64_t i = 0; i < channels; ++i) {
        copy_channel(phase, band, x + (c + i) * x_[0] * x_[1] * x_[2], scratch + i * phase.channel_floats);
      }
      const float* block = weights + c * phase.tap_count();
      float* pack = packed + (phase.keeps_packed ? c / together * phase.packed_floats : 0);
      if (phase.packs_rows && !has_packed) pack_rows({rows, some, depth, 1}, block, pack);
      const auto multiply = [&](int64_t first, int64_t vectors, float* to, int64_t to_stride) {
        const auto source_at = [&](int64_t j) { return ShiftedSource{scratch + first + j, phase.starts.data()}; };
        if (phase.packs_rows) {
          const PackedTile tiles{pack, to, to_stride, !direct};
          product_block(tiles, kMatrixRows * some, rows, vectors * kLanes, some, source_at);
        } else {
          const ProductTile tiles{block, depth, 1, to, to_stride, !direct};
          product_block(tiles, kMatrixRows * depth, rows, vectors * kLanes, some, source_at);
        }
      };
      if (direct) {
        multiply(0, whole / kLanes, band_y, y_plane);
        if (whole < columns) multiply(whole, 1, sums, kLanes);
      } else {
        multiply(0, stride / kLanes, sums, stride);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (direct) {
        std::copy_n(sums + r * kLanes, columns - whole, band_y + r * y_plane + whole);
      } else {
        store_band(phase, band, sums + r * stride, y + r * y_plane);
      }
    }
  }

  static Band band_of(const Phase& phase, int64_t number) {
    const int64_t along = number % phase.bands_along * phase.columns;
    const int64_t down = number / phase.bands_along % phase.bands_down * phase.rows;
    return {.at = {number / phase.bands_along / phase.bands_down, down, along},
            .rows = std::min(phase.rows, phase.count[1] - down),
            .columns = std::min(phase.columns, phase.count[2] - along)};
  }

  // Inputs of one channel for the taps of a band's outputs, zeros outside.
  void copy_channel(const Phase& phase, const Band& band, const float* x, float* to) const {
    const int64_t step = in_step_[2], more = phase.pitch - phase.columns;
    for (const int64_t tap : phase.depths) {
      const int64_t d = band.at[0] * in_step_[0] + tap;
      for (int64_t ahead = 0; ahead < in_step_[1]; ++ahead) {
        for (const int64_t left : phase.lefts) {
          const ClippedRow clipped(x_[2], band.at[2] * step + left + phase.low[2], step, band.columns + more);
          const ClippedRows rows{.height = d >= 0 && d < x_[0] ? x_[1] : 0,
                                 .length = x_[2],
                                 .first = band.at[1] * in_step_[1] + ahead + phase.low[1],
                                 .step = in_step_[1],
                                 .rows = phase.copied_rows};
          copy_clipped_rows(clipped, rows, x + d * x_[1] * x_[2], phase.pitch, to);
          to += phase.copied_rows * phase.pitch;
        }
      }
    }
  }

  void store_band(const Phase& phase, const Band& band, const float* sums, float* y) const {
    const int64_t d = phase.first[0] + band.at[0] * out_step_[0], step = out_step_[2];
    for (int64_t row = 0; row < band.rows; ++row, sums += phase.pitch) {
      const int64_t h = phase.first[1] + (band.at[1] + row) * out_step_[1];
      float* to = y + (d * y_[1] + h) * y_[2] + phase.first[2] + band.at[2] * step;
      if (step == 1) {
        copy_short(sums, band.columns, to);
      } else {
        for (int64_t i = 0; i < band.columns; ++i) to[i * step] = sums[i];
      }
    }
  }

  abi::ConvRequest conv_;
  bool transposed_;
  Lengths x_{}, y_{};                             // lengths of the images
  Lengths in_step_{1, 1, 1}, out_step_{1, 1, 1};  // of x and of y, between outputs of a phase
  std::vector<Phase> phases_;
  int64_t bands_ = 0;
  int64_t copy_floats_ = 0, sum_floats_ = 0, packed_floats_ = 0, transposed_floats_ = 0;  // of a worker's scratch
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv) || conv.dtype != DType::f32) return nullptr;
  return std::make_unique<Conv>(conv, false, context.workers);
}

std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_transpose(request, conv) || conv.dtype != DType::f32) return nullptr;
  return std::make_unique<Conv>(conv, true, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
