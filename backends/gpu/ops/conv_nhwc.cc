// `conv_nhwc` of f16 and bf16.
#include "backends/gpu/ops/conv_nhwc.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "backends/common/window_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/gemm_conv.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"
#include "kernels/conv/conv_halo.h"
#include "kernels/conv/conv_nhwc.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kMostSplits = 16, kLeastSteps = 8;  // steps of a split

// The blocks of a launch. One along y has a split of the steps over taps and channels, whose sums a second launch adds.
struct ConvBlocks {
  const api::Function* function = nullptr;  // null: no kernel takes the request
  std::string name;
  int64_t columns = 1;      // outputs of a block
  int64_t pixel_tiles = 0;  // blocks of each column tile
  int64_t splits = 1;
};

int64_t tiles_of(int64_t length, int64_t tile) { return (length + tile - 1) / tile; }

ConvBlocks tiled_blocks(const abi::ConvNhwcRequest& conv, const MakeContext& context) {
  ConvBlocks blocks{.name = "conv_nhwc_" + std::string(dtype_name(conv.dtype)), .columns = kConvTileOutputs};
  blocks.function = context.function(blocks.name);
  blocks.pixel_tiles = tiles_of(conv.images * conv.window.outputs(), kConvTilePixels);
  // The steps are dealt out where there would be too few blocks to keep the device busy.
  const int64_t steps = conv.window.taps() * tiles_of(conv.in_channels, kConvDepth);
  const int64_t resident = api::resident_blocks(blocks.function);
  const int64_t grid = blocks.pixel_tiles * tiles_of(conv.out_channels, blocks.columns);
  blocks.splits = std::clamp<int64_t>(std::min(resident / grid, steps / kLeastSteps), 1, kMostSplits);
  return blocks;
}

// Whether kernels/conv/conv_halo.cc takes it, and its tiles of pixels are not mostly outside of the image.
bool takes_halo(const abi::ConvNhwcRequest& conv) {
  const abi::Window& w = conv.window;
  for (int axis = 1; axis < 3; ++axis) {
    if (w.kernel[axis] != 3 || w.stride[axis] != 1 || w.dilation[axis] != 1) return false;
  }
  const int64_t padded = tiles_of(w.out[1], kHaloSide) * tiles_of(w.out[2], kHaloSide) * kHaloSide * kHaloSide;
  return conv.in_channels % 8 == 0 && 2 * w.outputs() > padded;
}

// The width of a block and the splits that take the least time by an estimate in cycles of a multiprocessor, which
// multiplies 2048 pairs of f16 a cycle (H200). A block ends with kEnds cycles for its first loads and its results; a
// step takes no less than kLeastStep, the time of its loads; sums of splits move kSplitBytes a cycle.
ConvBlocks halo_blocks(const abi::ConvNhwcRequest& conv, const MakeContext& context) {
  constexpr double kEnds = 5000, kLeastStep = 500, kSplitBytes = 2500, kSplitLaunch = 3000;
  ConvBlocks best;
  // AMD's cards have less memory in a block than this kernel wants.
  if (!takes_halo(conv) || api::backend_name() == std::string_view("rocm")) return best;
  const abi::Window& w = conv.window;
  const int64_t tiles = conv.images * tiles_of(w.out[1], kHaloSide) * tiles_of(w.out[2], kHaloSide);
  const int64_t chunks = tiles_of(conv.in_channels, kHaloDepth), units = context.compute_units();
  const double results = static_cast<double>(conv.images * w.outputs() * conv.out_channels);
  double least = std::numeric_limits<double>::infinity();
  for (const int64_t columns : {160, 128, 16}) {
    const std::string name = "conv_halo_" + std::string(dtype_name(conv.dtype)) + "_" + std::to_string(columns);
    const api::Function* const function = context.function_if_any(name);
    if (function == nullptr) return {};
    const double step = std::max(kLeastStep, static_cast<double>(kHaloSide * kHaloSide * columns * kHaloDepth) / 2048);
    for (int64_t splits = 1; splits <= std::min(chunks, kMostSplits); ++splits) {
      const int64_t rounds = tiles_of(tiles * tiles_of(conv.out_channels, columns) * splits, units);
      double time =
          static_cast<double>(rounds) * (step * kHaloTaps * static_cast<double>(tiles_of(chunks, splits)) + kEnds);
      if (splits > 1) time += kSplitLaunch + 8 * results * static_cast<double>(splits) / kSplitBytes;
      if (time >= least) continue;
      least = time;
      best = {.function = function, .name = name, .columns = columns, .pixel_tiles = tiles, .splits = splits};
    }
  }
  return best;
}

// The launches of a request on its blocks.
struct ConvLaunches {
  const api::Function* function;
  const api::Function* finish = nullptr;  // null: there is one split
  ConvNhwcArgs args{};
  Dim grid;
  size_t scratch_bytes = 0;

  ConvLaunches(const abi::ConvNhwcRequest& conv, const ConvBlocks& blocks, const MakeContext& context)
      : function(blocks.function) {
    const int64_t pixels = conv.images * conv.window.outputs();
    args.window = axes_of_window(conv.window);
    args.channels = static_cast<i32>(conv.in_channels);
    args.loose = conv.in_channels % 8 != 0;
    args.outputs = static_cast<i32>(conv.out_channels);
    args.shift_step = static_cast<i32>(conv.shift_step);
    args.doubled = conv.doubled;
    args.pixels = static_cast<i32>(pixels);
    args.column_tiles = static_cast<i32>(tiles_of(conv.out_channels, blocks.columns));
    args.splits = static_cast<i32>(blocks.splits);
    grid = {static_cast<u32>(blocks.pixel_tiles * args.column_tiles), static_cast<u32>(blocks.splits)};
    if (blocks.splits == 1) return;
    finish = context.function("conv_nhwc_finish_" + std::string(dtype_name(conv.dtype)));
    scratch_bytes = static_cast<size_t>(blocks.splits * pixels * conv.out_channels) * sizeof(float);
  }
};

class ConvNhwc : public Kernel {
 public:
  // `halo` without a function: `tiled` takes all launches; else those whose operands are not aligned to 16 bytes.
  ConvNhwc(const abi::ConvNhwcRequest& conv, const ConvBlocks& tiled, const ConvBlocks& halo,
           const MakeContext& context)
      : conv_(conv), tiled_(conv, tiled, context), halo_(conv, halo, context) {
    const ConvBlocks& chosen = halo.function != nullptr ? halo : tiled;
    implementation = chosen.name;
    if (chosen.splits > 1) implementation += " in " + std::to_string(chosen.splits);
    scratch_bytes = std::max(tiled_.scratch_bytes, halo_.scratch_bytes);
    const auto all = static_cast<double>(tiled_.args.pixels) * static_cast<double>(conv.out_channels);
    const auto depth = static_cast<double>(conv.in_channels * conv.window.taps());
    flops = 2 * all * depth;
    bytes = static_cast<double>(dtype_bytes(conv.dtype, 1)) *
            (all + depth * static_cast<double>(conv.out_channels) +
             static_cast<double>(conv.images * conv.window.inputs() * conv.in_channels));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const bool loose = !is_16_byte_aligned(input<void>(launch, 0)) || !is_16_byte_aligned(input<void>(launch, 1));
    const bool results = is_16_byte_aligned(output<void>(launch, 0)) &&
                         (conv_.residual < 0 || is_16_byte_aligned(input<void>(launch, conv_.residual)));
    const ConvLaunches& own = halo_.function != nullptr && !loose && results ? halo_ : tiled_;
    ConvNhwcArgs args = own.args;
    args.x = input<void>(launch, 0);
    args.weight = input<void>(launch, 1);
    if (conv_.bias >= 0) args.bias = input<float>(launch, conv_.bias);
    if (conv_.shift >= 0) args.shift = input<void>(launch, conv_.shift);
    if (conv_.residual >= 0) args.residual = input<void>(launch, conv_.residual);
    if (loose) args.loose = 1;
    args.y = output<void>(launch, 0);
    args.partials = static_cast<float*>(launch.scratch);
    run(own.function, own.grid, args);
    if (own.finish == nullptr) return;
    run(own.finish, {blocks_for(int64_t{args.pixels} * args.outputs, kElementThreads * kConvFinished)}, args);
  }

 private:
  abi::ConvNhwcRequest conv_;
  ConvLaunches tiled_, halo_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_nhwc(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvNhwcRequest conv;
  if (!read_conv_nhwc(request, conv) || conv.dtype == DType::f32) return nullptr;
  return std::make_unique<ConvNhwc>(conv, tiled_blocks(conv, context), halo_blocks(conv, context), context);
}

std::unique_ptr<Kernel> make_pixel_product(DType dtype, const abi::FusedMatmul& product, const MakeContext& context) {
  constexpr int64_t kMost = int64_t{1} << 30;  // that the kernel counts in 32 bits
  const abi::MatrixView &a = product.a, &b = product.b;
  if ((dtype != DType::f16 && dtype != DType::bf16) || product.activation != 0) return nullptr;
  if (a.column_stride != 1 || a.row_stride != a.columns || b.row_stride != 1 || b.column_stride != b.rows)
    return nullptr;
  if (std::min({a.rows, a.columns, b.columns}) == 0 || std::max({a.rows, a.columns, b.columns}) > kMost) return nullptr;
  abi::ConvNhwcRequest conv{.window = {.in = {1, a.rows, 1},
                                       .kernel = {1, 1, 1},
                                       .out = {1, a.rows, 1},
                                       .stride = {1, 1, 1},
                                       .padding = {0, 0, 0},
                                       .dilation = {1, 1, 1}},
                            .images = 1,
                            .in_channels = a.columns,
                            .out_channels = b.columns,
                            .dtype = dtype};
  if (product.bias) conv.shift = 2;  // of the only image, in the product's dtype
  return std::make_unique<ConvNhwc>(conv, tiled_blocks(conv, context), ConvBlocks{}, context);
}

}  // namespace gabbro::gpu
