// `conv_nhwc` of f16 and bf16.
#include "kernels/conv/conv_nhwc.h"

#include <algorithm>
#include <string>

#include "backends/common/window_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/gemm_conv.h"
#include "backends/gpu/ops/row_kernels.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kMostSplits = 16, kLeastSteps = 8;  // steps of a split

class ConvNhwc : public Kernel {
 public:
  ConvNhwc(const abi::ConvNhwcRequest& conv, const MakeContext& context) : conv_(conv) {
    const std::string type(dtype_name(conv.dtype));
    function_ = context.function("conv_nhwc_" + type);
    const abi::Window& w = conv.window;
    args_.window = axes_of_window(w);
    const int64_t pixels = conv.images * w.outputs();
    args_.channels = static_cast<i32>(conv.in_channels);
    args_.loose = conv.in_channels % 8 != 0;
    args_.outputs = static_cast<i32>(conv.out_channels);
    args_.pixels = static_cast<i32>(pixels);
    args_.column_tiles = static_cast<i32>(blocks_for(conv.out_channels, kConvTileOutputs));
    grid_.x = blocks_for(pixels, kConvTilePixels) * static_cast<u32>(args_.column_tiles);
    // The steps are dealt out where there would be too few blocks to keep the device busy.
    const int64_t steps = w.taps() * blocks_for(conv.in_channels, kConvDepth);
    const int64_t resident = api::resident_blocks(function_);
    const int64_t splits = std::clamp<int64_t>(std::min(resident / grid_.x, steps / kLeastSteps), 1, kMostSplits);
    args_.splits = static_cast<i32>(splits);
    grid_.y = static_cast<u32>(splits);
    implementation = "conv_nhwc_" + type;
    if (splits > 1) {
      finish_ = context.function("conv_nhwc_finish_" + type);
      implementation += " in " + std::to_string(splits);
      scratch_bytes = static_cast<size_t>(splits * pixels * conv.out_channels) * sizeof(float);
    }
    const auto all = static_cast<double>(pixels * conv.out_channels);
    const auto depth = static_cast<double>(conv.in_channels * w.taps());
    flops = 2 * all * depth;
    bytes = static_cast<double>(dtype_bytes(conv.dtype, 1)) *
            (all + depth * static_cast<double>(conv.out_channels) +
             static_cast<double>(conv.images * w.inputs() * conv.in_channels));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    ConvNhwcArgs args = args_;
    args.x = input<void>(launch, 0);
    args.weight = input<void>(launch, 1);
    if (conv_.bias >= 0) args.bias = input<float>(launch, conv_.bias);
    if (conv_.shift >= 0) args.shift = input<void>(launch, conv_.shift);
    if (conv_.residual >= 0) args.residual = input<void>(launch, conv_.residual);
    if (!is_16_byte_aligned(args.x) || !is_16_byte_aligned(args.weight)) args.loose = 1;
    args.y = output<void>(launch, 0);
    args.partials = static_cast<float*>(launch.scratch);
    run(function_, grid_, args);
    if (finish_ == nullptr) return;
    run(finish_, {blocks_for(int64_t{args.pixels} * args.outputs, kElementThreads)}, args);
  }

 private:
  abi::ConvNhwcRequest conv_;
  const api::Function* function_ = nullptr;
  const api::Function* finish_ = nullptr;
  ConvNhwcArgs args_{};
  Dim grid_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_nhwc(const abi::KernelRequest& request, const MakeContext& context) {
  abi::ConvNhwcRequest conv;
  if (!read_conv_nhwc(request, conv) || conv.dtype == DType::f32) return nullptr;
  return std::make_unique<ConvNhwc>(conv, context);
}

}  // namespace gabbro::gpu
