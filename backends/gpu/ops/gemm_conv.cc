#include "backends/gpu/ops/gemm_conv.h"

#include <algorithm>
#include <utility>

#include "backends/gpu/ops/conv_bias.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

// Columns that are made together: enough for a product to fill a large GPU.
constexpr int64_t kColumnBytes = int64_t{128} << 20;

class ProductConv : public Kernel {
 public:
  ProductConv(const abi::ConvRequest& conv, const std::string& library, const MakeContext& context)
      : window_(axes_of_window(conv.window)),
        images_(conv.images),
        channels_(conv.out_channels),
        plane_(conv.window.outputs()),
        depth_(conv.in_channels * conv.window.taps()),
        image_elements_(conv.in_channels * conv.window.inputs()),
        element_(static_cast<int64_t>(dtype_bytes(conv.dtype, 1))),
        some_(images_),
        bias_(conv, plane_, context) {
    const std::string dtype(dtype_name(conv.dtype));
    if (!is_pointwise(conv)) {
      some_ = std::clamp<int64_t>(kColumnBytes / (depth_ * plane_ * element_), 1, images_);
      scratch_bytes = static_cast<size_t>(some_ * depth_ * plane_ * element_);
      im2col_ = context.function("im2col_" + dtype);
    }
    product_ = product_of(some_, conv.dtype, library, context);
    rest_ = images_ % some_ == 0 ? product_ : product_of(images_ % some_, conv.dtype, library, context);
    implementation = (im2col_ == nullptr ? "conv as a product " : "conv of columns ") + library;
    flops = 2.0 * static_cast<double>(images_ * channels_) * static_cast<double>(plane_ * depth_);
    bytes = static_cast<double>(element_) *
            static_cast<double>(images_ * (image_elements_ + channels_ * plane_) + channels_ * depth_);
  }

  bool taken() const { return product_ != nullptr && rest_ != nullptr; }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const auto* x = input<std::byte>(launch, 0);
    auto* y = output<std::byte>(launch, 0);
    for (int64_t first = 0; first < images_; first += some_) {
      const int64_t count = std::min(some_, images_ - first);
      const void* columns = x + first * image_elements_ * element_;
      if (im2col_ != nullptr) {
        const int64_t total = count * depth_ * plane_;
        run(im2col_, {blocks_for(total, kElementThreads)},
            PlaneArgs{.x = columns, .y = launch.scratch, .window = window_, .total = total});
        columns = launch.scratch;
      }
      run((count == some_ ? product_ : rest_).get(), {.w = columns,
                                                      .x = input<void>(launch, 1),
                                                      .addend = nullptr,
                                                      .bias = nullptr,
                                                      .y = y + first * channels_ * plane_ * element_});
    }
    bias_.enqueue(launch, run);
  }

 private:
  // For each image, y [channels, plane] = filters [channels, depth] · columns [depth, plane].
  std::shared_ptr<const api::Gemm> product_of(int64_t images, DType dtype, const std::string& library,
                                              const MakeContext& context) const {
    return context.product(library, {.dtype = dtype,
                                     .result = dtype,
                                     .rows = plane_,
                                     .tokens = channels_,
                                     .depth = depth_,
                                     .batches = images,
                                     .w = {.step = plane_, .batch_step = depth_ * plane_, .transposed = true},
                                     .x = {.step = depth_},
                                     .y_step = plane_});
  }

  WindowAxes window_;
  int64_t images_, channels_, plane_, depth_, image_elements_, element_;
  int64_t some_;  // images at a time
  const api::Function* im2col_ = nullptr;
  ConvBias bias_;
  std::shared_ptr<const api::Gemm> product_, rest_;
};

}  // namespace

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

bool is_pointwise(const abi::ConvRequest& conv) {
  const abi::Window& w = conv.window;
  bool pointwise = true;
  for (int i = 0; i < 3; ++i) pointwise = pointwise && w.kernel[i] == 1 && w.stride[i] == 1 && w.padding[i] == 0;
  return pointwise && w.inputs() == w.outputs();
}

std::unique_ptr<Kernel> make_product_conv(const abi::ConvRequest& conv, const std::string& library,
                                          const MakeContext& context) {
  const bool nothing = std::min({conv.images, conv.in_channels, conv.out_channels, conv.window.outputs()}) == 0;
  if (conv.groups != 1 || nothing) return nullptr;
  auto kernel = std::make_unique<ProductConv>(conv, library, context);
  return kernel->taken() ? std::move(kernel) : nullptr;
}

}  // namespace gabbro::gpu
