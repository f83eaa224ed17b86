// Convolutions, im2col, pooling and resizing of images.
#include "kernels/window.h"

#include <fmt/format.h>

#include <limits>

#include "backends/common/window_request.h"
#include "backends/gpu/op_table.h"
#include "backends/gpu/ops/strided.h"
#include "backends/gpu/ways.h"

namespace gabbro::gpu {
namespace {

// Where nobody has measured: groups with fewer output channels leave most of a tile idle.
constexpr int64_t kTiledChannels = 16;

WindowAxes axes_of_window(const abi::Window& w) {
  WindowAxes axes;
  for (int i = 0; i < 3; ++i) {
    axes.in[i] = static_cast<i32>(w.in[i]);
    axes.kernel[i] = static_cast<i32>(w.kernel[i]);
    axes.out[i] = static_cast<i32>(w.out[i]);
    axes.stride[i] = static_cast<i32>(w.stride[i]);
    axes.padding[i] = static_cast<i32>(w.padding[i]);
    axes.dilation[i] = static_cast<i32>(w.dilation[i]);
  }
  return axes;
}

// A kernel with one struct of arguments, in which only the operands' places change, and a thread an element of y.
template <class Args>
class PerElement : public Kernel {
 public:
  PerElement(const abi::KernelRequest& request, std::string kernel, const Args& args, const MakeContext& context)
      : function_(context.function(kernel)), args_(args) {
    implementation = std::move(kernel);
    args_.total = elements(request.outputs[0]);
    const auto element = static_cast<double>(dtype_bytes(request.inputs[0].dtype, 1));
    bytes = element * static_cast<double>(elements(request.inputs[0]) + args_.total);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    Args args = args_;
    args.x = input<void>(launch, 0);
    args.y = output<void>(launch, 0);
    run(function_, {blocks_for(args.total, kElementThreads)}, args);
  }

 private:
  const api::Function* function_;
  Args args_;
};

class Conv : public Kernel {
 public:
  Conv(const abi::ConvRequest& conv, std::string kernel, bool transposed, const MakeContext& context)
      : function_(context.function(kernel)) {
    implementation = std::move(kernel);
    const int64_t plane = transposed ? conv.window.inputs() : conv.window.outputs();
    const int64_t batches = conv.images * conv.groups;
    args_ = {.window = axes_of_window(conv.window),
             .groups = static_cast<i32>(conv.groups),
             .in_channels = static_cast<i32>(conv.in_channels),
             .out_channels = static_cast<i32>(conv.out_channels),
             .total = batches * conv.out_channels * plane};
    tiled_ = implementation.starts_with("conv_tiled");
    if (tiled_) {
      args_.channel_tiles = blocks_for(conv.out_channels, kConvTile);
      args_.output_tiles = blocks_for(plane, kConvTile);
      blocks_ = static_cast<u32>(batches) * args_.channel_tiles * args_.output_tiles;
    } else {
      blocks_ = blocks_for(args_.total, kElementThreads);
    }
    bias_ = conv.bias;
    const auto element = static_cast<double>(dtype_bytes(conv.dtype, 1));
    const auto products = static_cast<double>(batches * conv.out_channels * conv.in_channels * conv.window.taps());
    flops = 2 * products * static_cast<double>(conv.window.outputs());
    bytes =
        element *
        (products / static_cast<double>(conv.images) + static_cast<double>(args_.total) +
         static_cast<double>(batches * conv.in_channels * (transposed ? conv.window.outputs() : conv.window.inputs())));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    ConvArgs args = args_;
    args.x = input<void>(launch, 0);
    args.weight = input<void>(launch, 1);
    args.bias = bias_ ? input<float>(launch, 2) : nullptr;
    args.y = output<void>(launch, 0);
    run(function_, {blocks_}, args);
  }

 private:
  const api::Function* function_;
  ConvArgs args_{};
  bool tiled_ = false, bias_ = false;
  u32 blocks_ = 0;
};

// A measurement stands for up to twice as many images.
std::string shape_of(const abi::ConvRequest& conv) {
  const abi::Window& w = conv.window;
  const auto axes = [](const int64_t(&lengths)[3]) {
    return fmt::format("{}x{}x{}", lengths[0], lengths[1], lengths[2]);
  };
  return fmt::format("conv {}, up to {} of {} x {} to {}, taps {}, stride {}, padding {}, dilation {}, {} groups{}",
                     dtype_name(conv.dtype), length_class(conv.images), conv.in_channels, axes(w.in), conv.out_channels,
                     axes(w.kernel), axes(w.stride), axes(w.padding), axes(w.dilation), conv.groups,
                     conv.bias ? ", bias" : "");
}

std::string name_of(const char* kernel, DType dtype) { return kernel + std::string(dtype_name(dtype)); }

}  // namespace

std::unique_ptr<Kernel> make_im2col(const abi::KernelRequest& request, const MakeContext& context) {
  abi::Im2colRequest im2col;
  if (!read_im2col(request, im2col)) return nullptr;
  return std::make_unique<PerElement<PlaneArgs>>(
      request, name_of("im2col_", im2col.dtype),
      PlaneArgs{.window = axes_of_window(im2col.window), .value = im2col.value}, context);
}

std::unique_ptr<Kernel> make_pool(const abi::KernelRequest& request, const MakeContext& context) {
  abi::PoolRequest pool;
  if (!read_pool(request, pool)) return nullptr;
  return std::make_unique<PerElement<PlaneArgs>>(
      request, name_of(pool.largest ? "pool_max_" : "pool_mean_", pool.dtype),
      PlaneArgs{.window = axes_of_window(pool.window), .counts_padding = pool.counts_padding}, context);
}

std::unique_ptr<Kernel> make_resize(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ResizeRequest resize;
  if (!read_resize(request, resize)) return nullptr;
  constexpr const char* kKernels[] = {"resize_mean_", "resize_nearest_", "resize_bilinear_"};
  return std::make_unique<PerElement<ResizeArgs>>(
      request, name_of(kKernels[resize.mode], resize.dtype),
      ResizeArgs{.in = {static_cast<i32>(resize.in[0]), static_cast<i32>(resize.in[1])},
                 .out = {static_cast<i32>(resize.out[0]), static_cast<i32>(resize.out[1])},
                 .aligned_corners = resize.aligned_corners},
      context);
}

std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv)) return nullptr;
  const bool tiled = conv.out_channels >= kTiledChannels;
  std::vector<Way> ways;
  for (const bool tiles : {tiled, !tiled}) {
    ways.push_back({.name = tiles ? "tiled" : "direct", .ours = true, .make = [&, tiles] {
                      const std::string kernel = name_of(tiles ? "conv_tiled_" : "conv_direct_", conv.dtype);
                      return std::make_unique<Conv>(conv, kernel, false, context);
                    }});
  }
  return choose_way(shape_of(conv), ways, context);
}

std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_transpose(request, conv)) return nullptr;
  return std::make_unique<Conv>(conv, name_of("conv_transpose_", conv.dtype), true, context);
}

}  // namespace gabbro::gpu
