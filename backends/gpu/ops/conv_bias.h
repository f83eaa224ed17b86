// The bias of a convolution whose library adds none: y [N, channels, plane] += bias [channels], which is input 2.
#pragma once

#include <string>

#include "backends/common/window_request.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/ops/strided.h"
#include "kernels/conv/window.h"

namespace gabbro::gpu {

class ConvBias {
 public:
  // `plane`: elements of a channel of y.
  ConvBias(const abi::ConvRequest& conv, int64_t plane, const MakeContext& context) {
    if (!conv.bias) return;
    const int64_t channels = conv.groups * conv.out_channels;
    function_ = context.function("conv_bias_" + std::string(dtype_name(conv.dtype)));
    args_ = {.total = conv.images * channels * plane,
             .channels = static_cast<i32>(channels),
             .plane = static_cast<i32>(plane)};
  }

  // Nothing: no bias.
  void enqueue(const abi::Launch& launch, const Launcher& run) const {
    if (function_ == nullptr) return;
    ConvBiasArgs args = args_;
    args.y = output<void>(launch, 0);
    args.bias = input<float>(launch, 2);
    run(function_, {blocks_for(args.total, kElementThreads)}, args);
  }

 private:
  const api::Function* function_ = nullptr;
  ConvBiasArgs args_{};
};

}  // namespace gabbro::gpu
