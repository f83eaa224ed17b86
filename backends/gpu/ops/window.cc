// Convolutions, im2col, pooling and resizing of images. Convolutions have two kernels of ours, and of the vendor's
// libraries, where the convolution is worth opening one, the GEMM libraries, and the convolution libraries where
// they were measured or can be trusted.
#include "kernels/conv/window.h"

#include <fmt/format.h>

#include <limits>

#include "backends/common/window_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/conv_bias.h"
#include "backends/gpu/ops/gemm_conv.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"
#include "backends/gpu/tuning/autotune.h"
#include "backends/gpu/tuning/tuning.h"

namespace gabbro::gpu {
namespace {

// The rule for shapes without a measurement: groups with fewer output channels leave most of a tile idle.
constexpr int64_t kTiledChannels = 16;
// Flops from which on a library is asked for a shape without a measurement: ours take some 10 microseconds.
constexpr double kLibraryFlops = 1 << 26;

std::string name_of(const char* kernel, DType dtype) { return kernel + std::string(dtype_name(dtype)); }

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

double flops_of(const abi::ConvRequest& conv) {
  const int64_t products = conv.images * conv.groups * conv.out_channels * conv.in_channels * conv.window.taps();
  return 2 * static_cast<double>(products) * static_cast<double>(conv.window.outputs());
}

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
    flops = flops_of(conv);
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

// A vendor's library, which knows of no bias of another type than y.
class LibraryConv : public Kernel {
 public:
  LibraryConv(const abi::ConvRequest& conv, const std::string& library, bool transposed,
              std::shared_ptr<const api::Convolution> made, const MakeContext& context)
      : convolution_(std::move(made)),
        unaligned_(conv, name_of(transposed ? "conv_transpose_" : "conv_direct_", conv.dtype), transposed, context),
        bias_(conv, transposed ? conv.window.inputs() : conv.window.outputs(), context) {
    implementation = (transposed ? "conv_transpose " : "conv ") + library;
    flops = flops_of(conv);
    scratch_bytes = api::convolution_scratch(convolution_.get());
  }

  // Null where the library does not take it.
  static std::unique_ptr<Kernel> make(const abi::ConvRequest& conv, const std::string& library, bool transposed,
                                      bool search, const MakeContext& context) {
    api::ConvShape shape = {.dtype = conv.dtype,
                            .images = conv.images,
                            .groups = conv.groups,
                            .in_channels = transposed ? conv.out_channels : conv.in_channels,
                            .out_channels = transposed ? conv.in_channels : conv.out_channels,
                            .transposed = transposed};
    const abi::Window& w = conv.window;
    for (int i = 0; i < 3; ++i) {
      shape.in[i] = w.in[i];
      shape.kernel[i] = w.kernel[i];
      shape.out[i] = w.out[i];
      shape.stride[i] = w.stride[i];
      shape.padding[i] = w.padding[i];
      shape.dilation[i] = w.dilation[i];
    }
    auto made = context.convolution(library, shape, search);
    return made == nullptr ? nullptr
                           : std::make_unique<LibraryConv>(conv, library, transposed, std::move(made), context);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    void* const y = output<void>(launch, 0);
    if (!is_16_byte_aligned(y) || !is_16_byte_aligned(launch.inputs[0].data) ||
        !is_16_byte_aligned(launch.inputs[1].data))
      return unaligned_.enqueue(launch, run);
    run(convolution_.get(), input<void>(launch, 0), input<void>(launch, 1), y, launch.scratch);
    bias_.enqueue(launch, run);
  }

 private:
  std::shared_ptr<const api::Convolution> convolution_;
  Conv unaligned_;  // of operands that do not begin at a multiple of 16 bytes
  ConvBias bias_;
};

// A measurement stands for up to twice as many images, and for the libraries that it names.
std::string shape_of(const abi::ConvRequest& conv, const std::string& libraries) {
  const abi::Window& w = conv.window;
  const auto axes = [](const int64_t(&lengths)[3]) {
    return fmt::format("{}x{}x{}", lengths[0], lengths[1], lengths[2]);
  };
  return fmt::format("conv {}, up to {} of {} x {} to {}, taps {}, stride {}, padding {}, dilation {}, {} groups{}{}",
                     dtype_name(conv.dtype), length_class(conv.images), conv.in_channels, axes(w.in), conv.out_channels,
                     axes(w.kernel), axes(w.stride), axes(w.padding), axes(w.dilation), conv.groups,
                     conv.bias ? ", bias" : "", libraries);
}

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
                 .step = {resize.step[0], resize.step[1]},
                 .aligned_corners = resize.aligned_corners},
      context);
}

std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv(request, conv)) return nullptr;
  const bool tiled = conv.out_channels >= kTiledChannels;
  const bool large = flops_of(conv) >= kLibraryFlops, trusted = large && context.trusts_convolution_libraries();
  const bool worth = large && conv.out_channels >= kTiledChannels;
  std::vector<Candidate> ours, products, asked, candidates;
  for (const bool tiles : {tiled, !tiled}) {
    ours.push_back({.name = tiles ? "tiled" : "direct", .ours = true, .make = [&, tiles] {
                      const std::string kernel = name_of(tiles ? "conv_tiled_" : "conv_direct_", conv.dtype);
                      return std::make_unique<Conv>(conv, kernel, false, context);
                    }});
  }
  for (const std::string& library : context.libraries()) {
    products.push_back({.name = "product " + library,
                        .ours = false,
                        .make = [&, library] { return make_product_conv(conv, library, context); },
                        .only_measured = !context.trusts_libraries()});
  }
  std::string libraries;
  if (context.tuning().active() || trusted) {
    for (const std::string& library : context.convolution_libraries()) {
      const std::string version = context.library_version(library);
      if (version.empty()) continue;
      libraries += fmt::format(", {} {}", library, version);
      asked.push_back({.name = library, .ours = false, .make = [&, library] {
                         const bool search = context.tuning().searches(shape_of(conv, libraries));
                         return LibraryConv::make(conv, library, false, search, context);
                       }});
    }
  }
  const auto add = [&](std::vector<Candidate>& more, bool now) {
    if (now) candidates.insert(candidates.end(), more.begin(), more.end());
    if (now) more.clear();
  };
  // The rule, and behind it what only a measurement may choose. A convolution with one tap is a product of matrices;
  // with more, its columns cost memory to write and read.
  add(asked, trusted && !is_pointwise(conv));
  add(products, worth);
  add(asked, trusted);
  for (std::vector<Candidate>* rest : {&ours, &products, &asked}) add(*rest, true);
  return autotune(shape_of(conv, libraries), candidates, context);
}

std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvRequest conv;
  if (!read_conv_transpose(request, conv)) return nullptr;
  if (context.trusts_convolution_libraries() && flops_of(conv) >= kLibraryFlops) {
    for (const std::string& library : context.convolution_libraries()) {
      if (auto kernel = LibraryConv::make(conv, library, true, false, context)) return kernel;
    }
  }
  return std::make_unique<Conv>(conv, name_of("conv_transpose_", conv.dtype), true, context);
}

}  // namespace gabbro::gpu
