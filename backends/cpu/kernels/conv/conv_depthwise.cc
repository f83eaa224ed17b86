// Depthwise convolutions, f32: one channel of x for one or a few of y. For a band of outputs the inputs are copied with
// zeros around them, rows and columns grouped by their remainder by the strides, so that a tap of neighboring outputs
// is a run of elements, and vertically adjacent taps are adjacent rows (depthwise_tile.h). For small images the lanes
// are channels (conv_depthwise_small.cc); all others are GEMMs (conv.cc).
#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/clipped_vectors.h"
#include "backends/cpu/kernels/conv/depthwise_tile.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using abi::Window;

constexpr int64_t kMostOutputs = 8;     // channels of y for one of x; more fill the tile of a product
constexpr int64_t kCopy = 6 << 10;      // floats of a band's copy: 24 KiB of L1, or 8; with 4, 56² take a tenth longer
constexpr int64_t kMostCopy = 1 << 18;  // of the rows of one tile, which see many planes where strides are large
constexpr int64_t kShares = 4;          // bands for each worker, where there are as many
constexpr int64_t kGrain = 1 << 16;     // products that a worker takes at a time, at least
static_assert(ClippedVectors::kMost * kLanes >= kDepthwisePitch);

// How outputs are cut into bands, and what the copy of a band looks like: [kernel[0]][planes_down][planes_along]
// [copied_rows][kDepthwisePitch]. With a dilation, neighboring rows of outputs may see different rows of x: a band has
// rows that are `apart` from each other, of one phase.
struct Layout {
  Layout(const abi::ConvRequest& conv, int workers) {
    const Window& w = conv.window;
    row_step = std::lcm(w.stride[1], w.dilation[1]);
    apart = row_step / w.stride[1];
    tap_step = row_step / w.dilation[1];
    planes_down = std::min(tap_step, w.kernel[1]);
    planes_along = std::min(w.stride[2] / std::gcd(w.stride[2], w.dilation[2]), w.kernel[2]);
    beyond = (w.kernel[2] - 1) * w.dilation[2] / w.stride[2];
    const int64_t most = (kDepthwisePitch - beyond) / kLanes * kLanes;
    if (most < kLanes) return;
    bands_along = pieces(w.out[2], most);  // of about the same length
    columns = bands_along == 1 ? w.out[2] : pieces(pieces(w.out[2], bands_along), kLanes) * kLanes;
    bands_along = pieces(w.out[2], columns);
    phases = std::min(apart, w.out[1]);
    const int64_t all = pieces(w.out[1], apart), planes = w.kernel[0] * planes_down * planes_along;
    const int64_t others = conv.images * conv.groups * w.out[0] * phases * bands_along;
    const int64_t shared = workers == 1 ? all : pieces(all, pieces(kShares * workers, others));
    rows = std::min(kCopy / planes / (columns + beyond) - taps_down(w) + 1, shared);
    rows = std::clamp<int64_t>(rows, std::min<int64_t>(kDepthwiseRows, all), all);
    bands_down = pieces(all, rows);
    rows = pieces(all, bands_down);
    bands_down = pieces(all, rows);
    copied_rows = rows + taps_down(w) - 1;
    copy_floats = planes * copied_rows * kDepthwisePitch;
  }

  int64_t taps_down(const Window& w) const { return pieces(w.kernel[1], tap_step); }  // of a plane, at most
  int64_t plane_floats() const { return copied_rows * kDepthwisePitch; }

  int64_t apart, phases = 0;
  int64_t row_step;  // in x, from row to row of a plane of the copy
  int64_t tap_step;  // from a tap to the one below that sees the same plane
  int64_t planes_down, planes_along;
  int64_t beyond;  // columns that a band's copy has more than the band
  int64_t rows = 0, columns = 0;
  int64_t bands_down = 0, bands_along = 0;
  int64_t copied_rows = 0, copy_floats = 0;
};

struct Band {
  int64_t depth, down, along;  // its first output
  int64_t rows, columns;
  ClippedVectors clipped, between;  // by the first taps of the first two planes along
};

class DepthwiseConv : public Kernel {
 public:
  DepthwiseConv(const abi::ConvRequest& conv, const Layout& layout, int workers) : conv_(conv), layout_(layout) {
    plan_runs();
    const Window& w = conv.window;
    scratch_bytes = static_cast<size_t>(workers * worker_floats()) * sizeof(float);
    implementation = "conv depthwise";
    flops = 2.0 * static_cast<double>(conv.images * conv.groups * conv.out_channels) *
            static_cast<double>(w.taps() * w.outputs());
    bytes = 4.0 * static_cast<double>(conv.images * conv.groups * (w.inputs() + conv.out_channels * w.outputs()));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const Window& w = conv_.window;
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats();
    const int64_t channels = conv_.images * conv_.groups;
    const int64_t bands = w.out[0] * layout_.phases * layout_.bands_down * layout_.bands_along;
    const int64_t work = conv_.out_channels * w.taps() * pieces(w.outputs(), bands);
    worker.parallel_for(channels * bands, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t number = begin / channels, before = number * channels;
        const Band band = band_of(number);
        for (const int64_t last = std::min(end, before + channels); begin < last; ++begin) {
          make_band(launch, band, begin - before, scratch);
        }
      }
    });
  }

 private:
  int64_t worker_floats() const { return layout_.copy_floats + kDepthwiseRows * kLanes; }

  void plan_runs() {
    const Window& w = conv_.window;
    const int64_t cuts = pieces(layout_.taps_down(w), kDepthwiseTaps);
    taps_ = longest_run(layout_.taps_down(w));
    std::vector<TapRun> shorter;
    for (int64_t depth = 0; depth < w.kernel[0]; ++depth)
      for (int64_t down = 0; down < layout_.planes_down; ++down)
        for (int64_t along = 0; along < w.kernel[2]; ++along) {
          const int64_t count = pieces(w.kernel[1] - down, layout_.tap_step);
          const int64_t plane =
              (depth * layout_.planes_down + down) * layout_.planes_along + along % layout_.planes_along;
          cut_taps(count, cuts, [&](int64_t taps, int64_t first) {
            const int64_t row = plane * layout_.copied_rows + first, tap = down + first * layout_.tap_step;
            const TapRun run{.at = row * kDepthwisePitch + along * w.dilation[2] / w.stride[2],
                             .weight = (depth * w.kernel[1] + tap) * w.kernel[2] + along};
            (taps == taps_ ? runs_ : shorter).push_back(run);
          });
        }
    longest_ = static_cast<int64_t>(runs_.size());
    runs_.insert(runs_.end(), shorter.begin(), shorter.end());
  }

  Band band_of(int64_t number) const {
    const Window& w = conv_.window;
    const int64_t along = number % layout_.bands_along * layout_.columns;
    number /= layout_.bands_along;
    const int64_t first = number % layout_.bands_down * layout_.rows;
    number /= layout_.bands_down;
    const int64_t phase = number % layout_.phases, columns = std::min(layout_.columns, w.out[2] - along);
    const auto clipped = [&](int64_t left) {
      return ClippedVectors(
          ClippedRow(w.in[2], along * w.stride[2] - w.padding[2] + left, w.stride[2], columns + layout_.beyond));
    };
    return {.depth = number / layout_.phases,
            .down = phase + first * layout_.apart,
            .along = along,
            .rows = std::min(layout_.rows, pieces(w.out[1] - phase, layout_.apart) - first),
            .columns = columns,
            .clipped = clipped(0),
            .between = clipped(1)};
  }

  void make_band(const abi::Launch& launch, const Band& band, int64_t batch, float* scratch) const {
    if (band.rows <= 0) return;  // the later phases may have a row less
    const Window& w = conv_.window;
    copy_band(static_cast<const float*>(launch.inputs[0].data), band, batch, scratch);
    const auto* weights = static_cast<const float*>(launch.inputs[1].data);
    const auto* bias = conv_.bias ? static_cast<const float*>(launch.inputs[2].data) : nullptr;
    float* y = static_cast<float*>(launch.outputs[0].data) + batch * conv_.out_channels * w.outputs() +
               (band.depth * w.out[1] + band.down) * w.out[2] + band.along;
    int64_t channel = batch % conv_.groups * conv_.out_channels;
    for (int64_t i = 0; i < conv_.out_channels; ++i, ++channel, y += w.outputs()) {
      const TapRuns runs{.begin = runs_.data(),
                         .shorter = runs_.data() + longest_,
                         .end = runs_.data() + runs_.size(),
                         .weights = weights + channel * w.taps(),
                         .weight_step = layout_.tap_step * w.kernel[2],
                         .bias = bias == nullptr ? zero_f32() : splat(bias[channel])};
      make_rows(runs, band, scratch, y);
    }
  }

  void copy_band(const float* x, const Band& band, int64_t batch, float* to) const {
    const Window& w = conv_.window;
    const int64_t planes = layout_.planes_along, floats = layout_.plane_floats();
    const std::span<const float> all(x, static_cast<size_t>(conv_.images * conv_.groups * w.inputs()));
    for (int64_t depth = 0; depth < w.kernel[0]; ++depth) {
      const int64_t d = band.depth * w.stride[0] - w.padding[0] + depth * w.dilation[0];
      const int64_t plane = batch * w.inputs() + d * w.in[1] * w.in[2];
      for (int64_t down = 0; down < layout_.planes_down; ++down, to += planes * floats) {
        const ClippedRows rows{.height = d >= 0 && d < w.in[0] ? w.in[1] : 0,
                               .length = w.in[2],
                               .first = band.down * w.stride[1] - w.padding[1] + down * w.dilation[1],
                               .step = layout_.row_step,
                               .rows = band.rows + layout_.copied_rows - layout_.rows};
        if (kMasksLanes && w.stride[2] <= 2) {
          const ClippedCopy copy{all, plane, kDepthwisePitch, planes == 2 ? floats : 0, to};
          if (w.stride[2] == 1) {
            copy_clipped_vectors<1>(band.clipped, band.clipped, rows, copy);
          } else {
            copy_clipped_vectors<2>(band.clipped, band.between, rows, copy);
          }
        } else {
          for (int64_t along = 0; along < planes; ++along) {
            const int64_t left = band.clipped.row.left + along * w.dilation[2] % w.stride[2];
            copy_clipped_rows(ClippedRow(w.in[2], left, w.stride[2], band.clipped.row.count), rows, x + plane,
                              kDepthwisePitch, to + along * floats);
          }
        }
      }
    }
  }

  void make_rows(const TapRuns& runs, const Band& band, float* copy, float* y) const {
    const int64_t step = layout_.apart * conv_.window.out[2];
    const int64_t most = pieces(band.rows, pieces(band.rows, kDepthwiseRows));  // tiles of about the same height
    float* sums = copy + layout_.copy_floats;
    for (int64_t row = 0; row < band.rows; row += most, copy += most * kDepthwisePitch, y += most * step) {
      const int64_t rows = std::min(most, band.rows - row);
      const MakeDepthwiseRows make = kMakeDepthwiseRows<Lanes::kOutputs>[(rows - 1) * kDepthwiseTaps + taps_ - 1];
      if (band.columns >= kLanes) {
        make(runs, copy, band.columns, y, step);
      } else {
        make(runs, copy, kLanes, sums, kLanes);
        for (int64_t i = 0; i < rows; ++i) copy_short(sums + i * kLanes, band.columns, y + i * step);
      }
    }
  }

  abi::ConvRequest conv_;
  Layout layout_;
  std::vector<TapRun> runs_;
  int64_t taps_ = 0, longest_ = 0;  // of the longest runs, and how many of these there are
};

}  // namespace

std::unique_ptr<Kernel> make_conv_depthwise(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv) || conv.dtype != DType::f32) return nullptr;
  if (conv.in_channels != 1 || conv.out_channels > kMostOutputs) return nullptr;
  const Layout layout(conv, context.workers);
  if (layout.copy_floats == 0 || layout.copy_floats > kMostCopy) return nullptr;
  // In a single row of outputs nothing is seen by two taps below each other, and a product's tile has more sums: rows
  // of 1000 take 1.2 to 1.4 times as long here, rows of 100 half as long, for there is less to prepare.
  if (conv.window.out[1] <= layout.apart && layout.bands_along > 1) return nullptr;
  return std::make_unique<DepthwiseConv>(conv, layout, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
