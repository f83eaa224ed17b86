// Weight gradient of a convolution, f32: for each weight the sum over images and outputs of dy times its tap's input.
// Channels of some images are copied once for each column of the window, so that the inputs of a tap for neighboring
// outputs, also in the next row, are a run of elements. A tile is some channels of dy times some taps, whose sums have
// a vector each until the copied outputs are done.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/common/window_request.h"
#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// The sums of a tile, with the vectors that they are made of, fill the registers.
constexpr int kTileChannels = kTileVectors == 2 ? 4 : 2, kTileTaps = kTileVectors == 2 ? 6 : 3;
constexpr int64_t kOutputs = 512;           // copied at a time: kRowBlock channels of dy and a tile's taps stay in L1
constexpr int64_t kRowBlock = 8;            // channels of dy that are copied at a time
constexpr int64_t kCopyFloats = 32 * 1024;  // of a worker's copy, which stays in the L2 cache
constexpr int64_t kFewestOutputs = 8;       // of a slice: lanes beyond would be of no use

// Neighboring outputs of one image: whole rows, or a part of one.
struct Band {
  int64_t image, depth, row, column;
};

class ConvWeightGradient : public Kernel {
 public:
  ConvWeightGradient(const abi::ConvRequest& conv, int workers) : conv_(conv) {
    const abi::Window& w = conv.window;
    columns_ = w.out[2] <= kOutputs ? w.out[2] : kOutputs;
    rows_ = columns_ < w.out[2] ? 1 : std::clamp<int64_t>(kOutputs / columns_, 1, w.out[1]);
    bands_along_ = pieces(w.out[2], columns_);
    bands_down_ = pieces(w.out[1], rows_);
    const bool whole = bands_down_ == 1 && bands_along_ == 1;  // else the last band may be smaller
    together_ = whole ? std::max<int64_t>(1, kOutputs / (rows_ * columns_)) : 1;
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      phases_ = std::max(phases_, kh * w.dilation[1] % w.stride[1] + 1);
      more_rows_ = std::max(more_rows_, kh * w.dilation[1] / w.stride[1]);
    }
    plane_floats_ = (rows_ + more_rows_) * columns_;
    band_floats_ = w.kernel[0] * w.kernel[2] * phases_ * plane_floats_;
    channel_floats_ = together_ * band_floats_;
    for (int64_t tap = 0; tap < w.taps(); ++tap) starts_.push_back(start_of(tap));
    by_planes_ = w.stride[1] == 1 && w.stride[2] == 1 && columns_ == w.in[2] && columns_ == w.out[2];
    share_out(workers);
    copy_floats_ = channels_ * channel_floats_ + kLanes;
    gradient_floats_ = together_ * (pieces(rows_ * columns_, kLanes) * kLanes);
    worker_floats_ = pieces(copy_floats_ + kRowBlock * gradient_floats_, kLanes) * kLanes;
    scratch_bytes = static_cast<size_t>(workers * worker_floats_) * sizeof(float);
    implementation = "conv_weight_gradient";
    flops = 2.0 * static_cast<double>(conv.images * conv.groups * conv.out_channels * conv.in_channels) *
            static_cast<double>(w.taps() * w.outputs());
    bytes = 4.0 * static_cast<double>(conv.images * conv.groups *
                                      (conv.in_channels * w.inputs() + conv.out_channels * w.outputs()));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats_;
    const int64_t shares = pieces(conv_.in_channels, channels_), blocks = pieces(conv_.out_channels, filters_);
    worker.parallel_for(conv_.groups * shares * blocks, 1, [&](int64_t item, int64_t) {
      const int64_t group = item / blocks / shares;
      compute(launch, group, item / blocks % shares * channels_, item % blocks * filters_, scratch);
    });
  }

 private:
  // Unit of work: some channels of x and, if these are too few for all workers, of dy.
  void share_out(int workers) {
    const int64_t wanted = workers == 1 ? 1 : pieces(2 * workers, conv_.groups);
    channels_ = std::clamp<int64_t>(kCopyFloats / channel_floats_, 1, pieces(conv_.in_channels, wanted));
    const int64_t blocks = pieces(wanted, pieces(conv_.in_channels, channels_));
    filters_ = std::min(conv_.out_channels, std::max(kRowBlock, pieces(conv_.out_channels, blocks)));
  }

  // The weights of some channels of x and of some filters.
  void compute(const abi::Launch& launch, int64_t group, int64_t channel, int64_t filter, float* scratch) const {
    const abi::Window& w = conv_.window;
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    const auto* dy = static_cast<const float*>(launch.inputs[1].data);
    const int64_t row = conv_.in_channels * w.taps();  // of weights
    float* dw =
        static_cast<float*>(launch.outputs[0].data) + (group * conv_.out_channels + filter) * row + channel * w.taps();
    const int64_t channels = std::min(channels_, conv_.in_channels - channel);
    const int64_t filters = std::min(filters_, conv_.out_channels - filter);
    for (int64_t o = 0; o < filters; ++o) std::fill_n(dw + o * row, channels * w.taps(), 0.0f);
    const int64_t all = conv_.images * w.out[0] * bands_down_ * bands_along_;
    Some some{.gradients = scratch + copy_floats_};
    for (int64_t first = 0; first < all; first += together_) {
      some.bands = std::min(together_, all - first);
      for (int64_t i = 0; i < some.bands; ++i) {
        const Band band = band_at(first + i);
        const int64_t rows = std::min(rows_, w.out[1] - band.row);
        some.outputs = rows * std::min(columns_, w.out[2] - band.column);
        const float* plane = x + ((band.image * conv_.groups + group) * conv_.in_channels + channel) * w.inputs();
        for (int64_t c = 0; c < channels; ++c) {
          copy_channel(band, plane + c * w.inputs(), scratch + c * channel_floats_ + i * band_floats_);
        }
        some.dy[static_cast<size_t>(i)] =
            dy + ((band.image * conv_.groups + group) * conv_.out_channels + filter) * w.outputs() +
            (band.depth * w.out[1] + band.row) * w.out[2] + band.column;
      }
      for (int64_t o = 0; o < filters; o += kRowBlock) {
        const int64_t count = std::min(kRowBlock, filters - o);
        copy_gradients(some, o, count);
        multiply(some, scratch, count, channels, dw + o * row);
      }
    }
  }

  // The bands that are copied.
  struct Some {
    std::array<const float*, kOutputs / kFewestOutputs> dy{};  // of the first filter, by band
    int64_t bands = 0, outputs = 0;                            // and of each of them
    float* gradients;  // a copy of dy of kRowBlock filters: [filter][band][outputs, and zeros up to a whole vector]
    int64_t padded() const { return pieces(outputs, kLanes) * kLanes; }
  };

  Band band_at(int64_t number) const {
    const int64_t along = number % bands_along_ * columns_, slice = number / bands_along_ / bands_down_;
    return {.image = slice / conv_.window.out[0],
            .depth = slice % conv_.window.out[0],
            .row = number / bands_along_ % bands_down_ * rows_,
            .column = along};
  }

  // Inputs of the taps from one channel, zeros outside: [kernel[0]][kernel[2]][phases_][rows][columns_]. The input row
  // of tap kh of output row h is in the phase of its remainder by the stride.
  void copy_channel(const Band& band, const float* x, float* to) const {
    const abi::Window& w = conv_.window;
    const int64_t columns = std::min(columns_, w.out[2] - band.column);
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      const int64_t d = band.depth * w.stride[0] - w.padding[0] + kd * w.dilation[0];
      for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
        const int64_t left = band.column * w.stride[2] - w.padding[2] + kw * w.dilation[2];
        if (by_planes_) {
          copy_plane(d < 0 || d >= w.in[0] ? nullptr : x + d * w.in[1] * w.in[2], band.row - w.padding[1], left, to);
          to += plane_floats_;
          continue;
        }
        const ClippedRow clipped(w.in[2], left, w.stride[2], columns);
        for (int64_t phase = 0; phase < phases_; ++phase, to += plane_floats_) {
          const ClippedRows rows{.height = d >= 0 && d < w.in[0] ? w.in[1] : 0,
                                 .length = w.in[2],
                                 .first = band.row * w.stride[1] + phase - w.padding[1],
                                 .step = w.stride[1],
                                 .rows = rows_ + more_rows_};
          copy_clipped_rows(clipped, rows, x + d * w.in[1] * w.in[2], columns_, to);
        }
      }
    }
  }

  // For rows as long as the image's, from row `top` on: the image has the copy's layout, shifted by `left`,
  // except for elements of the row before or after.
  void copy_plane(const float* x, int64_t top, int64_t left, float* to) const {
    const int64_t all = rows_ + more_rows_, height = conv_.window.in[1], away = std::abs(left);
    const int64_t first = std::clamp<int64_t>(-top, 0, all), end = std::clamp<int64_t>(height - top, first, all);
    if (x == nullptr || away >= columns_) {
      std::fill_n(to, plane_floats_, 0.0f);
      return;
    }
    std::fill_n(to, first * columns_, 0.0f);
    std::fill_n(to + end * columns_, (all - end) * columns_, 0.0f);
    if (first == end) return;
    const float* from = x + (top + first) * columns_;
    to += first * columns_;
    copy_short(from + std::max<int64_t>(left, 0), (end - first) * columns_ - away, to + std::max<int64_t>(-left, 0));
    if (left > 0) to += columns_ - left;
    for (int64_t row = first; row < end; ++row, to += columns_)
      for (int64_t i = 0; i < away; ++i) to[i] = 0;
  }

  // Filters of neighboring images are often a power of two apart, and would share the sets of the cache.
  void copy_gradients(const Some& some, int64_t first, int64_t filters) const {
    const int64_t zeros = some.padded() - some.outputs;
    float* to = some.gradients;
    for (int64_t o = first; o < first + filters; ++o) {
      for (int64_t band = 0; band < some.bands; ++band, to += some.padded()) {
        copy_short(some.dy[static_cast<size_t>(band)] + o * conv_.window.outputs(), some.outputs, to);
        std::fill_n(to + some.outputs, zeros, 0.0f);
      }
    }
  }

  // Start of a tap in the copy of a channel's first band.
  int64_t start_of(int64_t tap) const {
    const abi::Window& w = conv_.window;
    const int64_t kd = tap / w.kernel[2] / w.kernel[1], kw = tap % w.kernel[2];
    const int64_t down = tap / w.kernel[2] % w.kernel[1] * w.dilation[1];
    const int64_t plane = (kd * w.kernel[2] + kw) * phases_ + down % w.stride[1];
    return plane * plane_floats_ + down / w.stride[1] * columns_;
  }

  // Adds the products of the filters whose gradients were copied and all taps of the channels.
  void multiply(const Some& some, const float* copy, int64_t filters, int64_t channels, float* dw) const {
    const int64_t taps = conv_.window.taps(), all = channels * taps;
    for (int64_t first = 0, tap = 0; first < all; first += kTileTaps) {
      const int64_t count = std::min<int64_t>(kTileTaps, all - first);
      const float* clipped[kTileTaps];
      for (int64_t j = 0; j < count; ++j) {
        clipped[j] = copy + starts_[static_cast<size_t>(tap)];
        if (++tap == taps) tap = 0, copy += channel_floats_;
      }
      for (int64_t o = 0; o < filters; o += kTileChannels) {
        const auto some_filters = static_cast<int>(std::min<int64_t>(kTileChannels, filters - o));
        float* out = dw + o * conv_.in_channels * taps + first;
        add_tile(some_filters, static_cast<int>(count), some, clipped, o, out);
      }
    }
  }

  void add_tile(int filters, int taps, const Some& some, const float* const* clipped, int64_t o, float* out) const {
    const auto of_size = [&]<int kCode>() {
      constexpr int kFilters = kCode / kTileTaps + 1, kTaps = kCode % kTileTaps + 1;
      if (filters == kFilters && taps == kTaps) tile<kFilters, kTaps>(some, clipped, o, out);
    };
    [&]<int... kCodes>(std::integer_sequence<int, kCodes...>) { (of_size.template operator()<kCodes>(), ...); }
    (std::make_integer_sequence<int, kTileChannels * kTileTaps>{});
  }

  template <int kFilters, int kTaps>
  void tile(const Some& some, const float* const* clipped, int64_t o, float* out) const {
    F32 sums[kFilters][kTaps];
#pragma GCC unroll 4
    for (int r = 0; r < kFilters; ++r) {
#pragma GCC unroll 6
      for (int j = 0; j < kTaps; ++j) sums[r][j] = zero_f32();
    }
    const int64_t whole = some.outputs / kLanes * kLanes, filter = some.bands * some.padded();
    const Mask inside = lane_numbers() < splat(static_cast<float>(some.outputs - whole));
    const float* dy = some.gradients + o * filter;
    for (int64_t band = 0, at = 0; band < some.bands; ++band, at += band_floats_, dy += some.padded()) {
      const auto add = [&](int64_t i, auto chosen) {
        F32 factors[kFilters];
#pragma GCC unroll 4
        for (int r = 0; r < kFilters; ++r) factors[r] = load(dy + r * filter + i);
#pragma GCC unroll 6
        for (int j = 0; j < kTaps; ++j) {
          const F32 values = chosen(load(clipped[j] + at + i));
#pragma GCC unroll 4
          for (int r = 0; r < kFilters; ++r) sums[r][j] = fma(factors[r], values, sums[r][j]);
        }
      };
      for (int64_t i = 0; i < whole; i += kLanes) add(i, [](F32 values) { return values; });
      // Behind the last output, zeros meet what might be no numbers.
      if (whole < some.outputs) add(whole, [&](F32 values) { return select(inside, values, zero_f32()); });
    }
    const int64_t row = conv_.in_channels * conv_.window.taps();
#pragma GCC unroll 4
    for (int r = 0; r < kFilters; ++r) {
#pragma GCC unroll 6
      for (int j = 0; j < kTaps; ++j) out[r * row + j] += reduce_sum(sums[r][j]);
    }
  }

  static F32 lane_numbers() {
    static constexpr auto kNumbers = [] {
      std::array<float, kLanes> numbers{};
      for (int i = 0; i < kLanes; ++i) numbers[static_cast<size_t>(i)] = static_cast<float>(i);
      return numbers;
    }();
    return load(kNumbers.data());
  }

  abi::ConvRequest conv_;
  int64_t rows_ = 0, columns_ = 0;                 // of a band
  int64_t bands_down_ = 0, bands_along_ = 0;       // of an image
  int64_t together_ = 0;                           // bands that are copied at a time
  int64_t phases_ = 1, more_rows_ = 0;             // of a copy, for the taps below the first
  int64_t plane_floats_ = 0, band_floats_ = 0;     // of a copied column of the window, and of all
  std::vector<int64_t> starts_;                    // of the taps, in the copy of a channel's first band
  bool by_planes_ = false;                         // whether they are copied like that
  int64_t channel_floats_ = 0;                     // of the bands that are copied at a time
  int64_t channels_ = 1, filters_ = 1;             // of a share of the work
  int64_t copy_floats_ = 0, gradient_floats_ = 0;  // of a worker's scratch: of x, and of a filter's dy
  int64_t worker_floats_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_weight_gradient(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_weight_gradient(request, conv) || conv.dtype != DType::f32) return nullptr;
  const int64_t of_slice = conv.window.out[1] * conv.window.out[2];
  if (conv.images == 0 || conv.window.outputs() == 0 || of_slice < kFewestOutputs) return nullptr;
  return std::make_unique<ConvWeightGradient>(conv, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
