// Convolutions whose vectors are neighboring output channels, f32: a register tile holds some outputs of a row times a
// panel of channels, and reads x in place, element by element. Nothing is copied, no sum straddles the ends of rows,
// and taps with zeros alone are skipped, which are a sixth of the products of 5 x 5 on images of 14 x 14. The cost is a
// transposition of the weights and of the results, which are stored by channels. A transposed convolution with stride 1
// is a convolution with flipped weights. conv.cc, whose vectors are neighboring outputs, takes the other requests.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;

constexpr int64_t kGrain = 1 << 16;    // products that a worker takes at a time, at least
constexpr int64_t kLeastDepth = 24;    // products of an output that make turning it worth it
constexpr int64_t kLeastOutputs = 24;  // of a channel that make turning its weights worth it
constexpr int64_t kFewOutputs = 8;     // the same where most of a vector of an image's outputs would be of no use
constexpr int64_t kMostStep = 2;       // from output to output along a row: what there are tiles for

// A range of outputs, or of taps.
struct Range {
  int64_t begin = 0, count = 0;
  bool operator==(const Range&) const = default;
};

// Taps along a row that the same outputs see.
struct Pass {
  Range taps;
  Range outputs;  // from the tile's first on
};

// Outputs of a row that are made together.
struct Tile {
  Range outputs;
  std::vector<Pass> passes;
};

// Floats from one tap to the next along each axis, and from channel to channel, of x and of a panel of weights.
struct Steps {
  int64_t x_tap[3]{}, x_channel = 0;
  int64_t weight_tap[3]{}, weight_channel = 0;
};

// Sums [kOutputs][kPanel] += weights · x, for these taps and all channels. `x` and
// `weights` point to the first tap; kVectors of the sums are used.
template <int kOutputs, int kVectors, int kStep>
void add_taps(const Steps& steps, const Range* taps, int64_t channels, const float* x, const float* weights,
              float* sums) {
  F32 sum[kOutputs][kVectors];
#pragma GCC unroll 16
  for (int p = 0; p < kOutputs; ++p) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) sum[p][j] = load(sums + p * kPanel + j * kLanes);
  }
  for (int64_t d = 0; d < taps[0].count; ++d) {
    for (int64_t h = 0; h < taps[1].count; ++h) {
      const float* row = x + d * steps.x_tap[0] + h * steps.x_tap[1];
      const float* row_weights = weights + d * steps.weight_tap[0] + h * steps.weight_tap[1];
      // A channel's taps in sequence: planes a multiple of 4 KiB apart share a set of the L1 cache.
      for (int64_t c = 0; c < channels; ++c, row += steps.x_channel, row_weights += steps.weight_channel) {
        const float *clipped = row, *factors = row_weights;
        for (int64_t v = 0; v < taps[2].count; ++v, clipped += steps.x_tap[2], factors += kPanel) {
          F32 factor[kVectors];
#pragma GCC unroll 2
          for (int j = 0; j < kVectors; ++j) factor[j] = load(factors + j * kLanes);
#pragma GCC unroll 16
          for (int p = 0; p < kOutputs; ++p) {
            const F32 element = splat(clipped[p * kStep]);
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) sum[p][j] = fma(element, factor[j], sum[p][j]);
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < kOutputs; ++p) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) store(sums + p * kPanel + j * kLanes, sum[p][j]);
  }
}

using AddTaps = void (*)(const Steps& steps, const Range* taps, int64_t channels, const float* x, const float* weights,
                         float* sums);

// Functions by the number of outputs, less one.
using Tiles = std::array<AddTaps, kMatrixRows>;

template <int kVectors, int kStep>
constexpr Tiles tiles_of() {
  return []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    return Tiles{add_taps<kIndex + 1, kVectors, kStep>...};
  }
  (std::make_integer_sequence<int, kMatrixRows>{});
}

// Functions by the number of vectors, less one.
template <int kStep>
constexpr std::array<Tiles, kTileVectors> tiles_of_step() {
  return []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    return std::array<Tiles, kTileVectors>{tiles_of<kIndex + 1, kStep>()...};
  }
  (std::make_integer_sequence<int, kTileVectors>{});
}
constexpr std::array<Tiles, kTileVectors> kTiles[kMostStep] = {tiles_of_step<1>(), tiles_of_step<2>()};

class ConvChannels : public Kernel {
 public:
  // For a transposed convolution, `conv` is the equivalent convolution.
  ConvChannels(const abi::ConvRequest& conv, bool transposed, int workers) : conv_(conv), transposed_(transposed) {
    const Window& w = conv.window;
    for (int axis = 0; axis < 2; ++axis) {
      for (int64_t q = 0; q < w.out[axis]; ++q) taps_[axis].push_back(clipped_by(axis, q));
    }
    const int64_t tiles = pieces(w.out[2], kMatrixRows);
    for (int64_t t = 0; t < tiles; ++t) tiles_.push_back(make_tile(t * w.out[2] / tiles, (t + 1) * w.out[2] / tiles));
    const int64_t x_step[] = {w.in[1] * w.in[2], w.in[2], 1};
    const int64_t weight_step[] = {w.kernel[1] * w.kernel[2], w.kernel[2], 1};
    for (int axis = 0; axis < 3; ++axis) {
      x_step_[axis] = x_step[axis];
      steps_.x_tap[axis] = x_step[axis] * w.dilation[axis];
      steps_.weight_tap[axis] = weight_step[axis] * kPanel;
    }
    steps_.x_channel = w.inputs();
    steps_.weight_channel = w.taps() * kPanel;
    panels_ = pieces(conv.out_channels, kPanel);
    scratch_bytes = static_cast<size_t>(workers * worker_floats()) * sizeof(float);
    implementation = transposed ? "conv_transpose by channels" : "conv by channels";
    flops = 2.0 * static_cast<double>(conv.images * conv.groups * conv.out_channels * conv.in_channels) *
            static_cast<double>(w.taps() * w.outputs());
    bytes = 4.0 * static_cast<double>(conv.images * conv.groups) *
            static_cast<double>(conv.in_channels * w.inputs() + conv.out_channels * w.outputs());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats();
    const Window& w = conv_.window;
    const int64_t rows = conv_.images * w.out[0] * w.out[1];  // that a panel makes
    const int64_t products = kPanel * depth() * w.out[2];     // of a row
    int64_t packed = -1;
    worker.parallel_for(conv_.groups * panels_ * rows, std::max<int64_t>(1, kGrain / products),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t item = begin; item < end; ++item) {
                            const Panel panel = panel_of(item / rows);
                            if (item / rows != packed) {
                              const auto* weight = static_cast<const float*>(launch.inputs[1].data);
                              transposed_ ? pack_transposed(weight, panel, scratch) : pack(weight, panel, scratch);
                            }
                            packed = item / rows;
                            make_row(launch, panel, item % rows, scratch);
                          }
                        });
  }

 private:
  // Neighboring output channels.
  struct Panel {
    int64_t group;
    int64_t first;  // of all groups' channels
    int64_t channels;
  };

  Panel panel_of(int64_t number) const {
    const int64_t group = number / panels_, first = number % panels_ * kPanel;
    return {group, group * conv_.out_channels + first, std::min(kPanel, conv_.out_channels - first)};
  }

  int64_t depth() const { return conv_.in_channels * conv_.window.taps(); }
  int64_t packed_floats() const { return depth() * kPanel; }
  int64_t worker_floats() const { return packed_floats() + conv_.window.out[2] * kPanel; }

  // The taps along an axis by which output q sees x.
  Range clipped_by(int axis, int64_t q) const {
    const Window& w = conv_.window;
    const ClippedRow clipped(w.in[axis], q * w.stride[axis] - w.padding[axis], w.dilation[axis], w.kernel[axis]);
    return {clipped.begin, clipped.end - clipped.begin};
  }

  Tile make_tile(int64_t begin, int64_t end) const {
    const Window& w = conv_.window;
    Tile tile{.outputs = {begin, end - begin}, .passes = {}};
    for (int64_t tap = 0; tap < w.kernel[2]; ++tap) {
      const ClippedRow row(w.in[2], begin * w.stride[2] - w.padding[2] + tap * w.dilation[2], w.stride[2], end - begin);
      const Range seeing{row.begin, row.end - row.begin};
      if (seeing.count == 0) continue;
      if (!tile.passes.empty() && tile.passes.back().outputs == seeing) {  // there is no gap between such taps
        ++tile.passes.back().taps.count;
      } else {
        tile.passes.push_back({.taps = {tap, 1}, .outputs = seeing});
      }
    }
    return tile;
  }

  // A panel's weights [channels, C · taps] to [C · taps][kPanel], with zeros where there is no channel.
  void pack(const float* weight, const Panel& panel, float* packed) const {
    const int64_t all = depth(), eights = panel.channels / 8 * 8;
    const float* from = weight + panel.first * all;
    if (panel.channels < kPanel) std::fill_n(packed, all * kPanel, 0.0f);
    int64_t k = 0;
    for (; k + 8 <= all; k += 8) {
      for (int64_t o = 0; o < eights; o += 8) {
        transpose_eights(from + o * all + k, all, 8, packed + k * kPanel + o, kPanel);
      }
    }
    for (int64_t o = 0; o < panel.channels; ++o) {
      for (int64_t i = o < eights ? k : 0; i < all; ++i) packed[i * kPanel + o] = from[o * all + i];
    }
  }

  // For weights [C, channels, taps] with the convolution's taps in reverse order.
  void pack_transposed(const float* weight, const Panel& panel, float* packed) const {
    const int64_t taps = conv_.window.taps(), first = panel.first - panel.group * conv_.out_channels;
    if (panel.channels < kPanel) std::fill_n(packed, depth() * kPanel, 0.0f);
    for (int64_t c = 0; c < conv_.in_channels; ++c, packed += taps * kPanel) {
      const float* from = weight + ((panel.group * conv_.in_channels + c) * conv_.out_channels + first) * taps;
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t o = 0; o < panel.channels; ++o) packed[tap * kPanel + o] = from[o * taps + taps - 1 - tap];
      }
    }
  }

  // One row of the outputs of a panel's channels.
  void make_row(const abi::Launch& launch, const Panel& panel, int64_t row, float* scratch) const {
    const Window& w = conv_.window;
    const int64_t image = row / (w.out[0] * w.out[1]), at[] = {row / w.out[1] % w.out[0], row % w.out[1]};
    const int64_t in_first = (image * conv_.groups + panel.group) * conv_.in_channels;
    const float* x = static_cast<const float*>(launch.inputs[0].data) + in_first * w.inputs();
    const float* weights = scratch;
    float* sums = scratch + packed_floats();
    Range taps[3];
    for (int axis = 0; axis < 2; ++axis) {
      taps[axis] = taps_[axis][static_cast<size_t>(at[axis])];
      x += (at[axis] * w.stride[axis] - w.padding[axis]) * x_step_[axis] + taps[axis].begin * steps_.x_tap[axis];
      weights += taps[axis].begin * steps_.weight_tap[axis];
    }
    begin_sums(conv_.bias ? static_cast<const float*>(launch.inputs[2].data) + panel.first : nullptr, panel.channels,
               sums);
    const Tiles& add = kTiles[w.stride[2] - 1][static_cast<size_t>(pieces(panel.channels, kLanes) - 1)];
    for (const Tile& tile : tiles_) {
      for (const Pass& pass : tile.passes) {
        taps[2] = pass.taps;
        const int64_t output = tile.outputs.begin + pass.outputs.begin;
        const int64_t column = output * w.stride[2] - w.padding[2] + pass.taps.begin * w.dilation[2];
        add[static_cast<size_t>(pass.outputs.count - 1)](steps_, taps, conv_.in_channels, x + column,
                                                         weights + pass.taps.begin * kPanel, sums + output * kPanel);
      }
    }
    const int64_t out_first = image * conv_.groups * conv_.out_channels + panel.first;
    store_row(
        sums, panel.channels,
        static_cast<float*>(launch.outputs[0].data) + out_first * w.outputs() + (at[0] * w.out[1] + at[1]) * w.out[2]);
  }

  void begin_sums(const float* bias, int64_t channels, float* sums) const {
    const int64_t count = conv_.window.out[2] * kPanel;
    if (bias == nullptr || channels < kPanel) std::fill_n(sums, count, 0.0f);
    for (int64_t i = 0; bias != nullptr && i < count; i += kPanel) std::copy_n(bias, channels, sums + i);
  }

  // Sums [outputs][kPanel] to a row for each channel. The last eight outputs may overlap those before.
  void store_row(const float* sums, int64_t channels, float* y) const {
    const int64_t outputs = conv_.window.out[2], plane = conv_.window.outputs();
    int64_t o = 0;
    for (; o + 8 <= channels && outputs >= 8; o += 8) {
      const auto transpose = [&](int64_t p) {
        transpose_eights(sums + p * kPanel + o, kPanel, 8, y + o * plane + p, plane);
      };
      for (int64_t p = 0; p + 8 < outputs; p += 8) transpose(p);
      transpose(outputs - 8);
    }
    for (; o < channels; ++o) {
      for (int64_t p = 0; p < outputs; ++p) y[o * plane + p] = sums[p * kPanel + o];
    }
  }

  abi::ConvRequest conv_;
  bool transposed_;
  int64_t panels_ = 0;          // of a group
  std::vector<Range> taps_[2];  // that outputs see, along the first two axes
  std::vector<Tile> tiles_;     // of a row
  int64_t x_step_[3]{};
  Steps steps_;
};

// Whether it is faster than conv.cc. With one tap and one step rows do not matter to that one, which makes larger
// tiles.
bool is_faster(const abi::ConvRequest& conv) {
  const Window& w = conv.window;
  const bool plain = w.taps() == 1 && w.stride[0] * w.stride[1] * w.stride[2] == 1;
  return !plain && w.stride[2] <= kMostStep && conv.in_channels > 1 && conv.in_channels * w.taps() >= kLeastDepth &&
         conv.images * w.outputs() >= (w.outputs() < kFewOutputs ? kFewOutputs : kLeastOutputs) &&
         pieces(conv.out_channels, kLanes) * kLanes * 7 <= conv.out_channels * 8;  // lanes that are of use
}

}  // namespace

std::unique_ptr<Kernel> make_conv_channels(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv) || conv.dtype != DType::f32 || !is_faster(conv)) return nullptr;
  return std::make_unique<ConvChannels>(conv, false, context.workers);
}

std::unique_ptr<Kernel> make_conv_transpose_channels(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_transpose(request, conv) || conv.dtype != DType::f32) return nullptr;
  Window& w = conv.window;
  if (w.stride[0] * w.stride[1] * w.stride[2] != 1) return nullptr;
  std::swap(w.in, w.out);
  for (int i = 0; i < 3; ++i) w.padding[i] = (w.kernel[i] - 1) * w.dilation[i] - w.padding[i];
  if (!is_faster(conv)) return nullptr;
  return std::make_unique<ConvChannels>(conv, true, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
