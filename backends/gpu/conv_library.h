// A vendor's convolution library on one device: MIOpen or cuDNN. It is used only for shapes for which it was measured
// to be faster than our kernels with an equal result (autotune.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// A convolution of one shape; it holds on to its library.
class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  // Device memory that it takes besides its operands.
  virtual size_t scratch_bytes() const = 0;
  // `stream` is the runtime's. Throws ApiError where the library fails.
  virtual void run(void* stream, const void* x, const void* w, void* y, void* scratch) const = 0;
};

class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;
  // Null where the library does not take the shape. `search`: may measure its own algorithms first, which can take
  // minutes. The device is current, as in all of these.
  virtual std::unique_ptr<LibraryConvolution> make(const api::ConvShape& shape, bool search) = 0;
};

// The shape in the terms that the libraries share: packed tensors [N, C, H, W], or [N, C, D, H, W] of volumes.
struct ConvDimensions {
  int rank;     // of the tensors: 4 or 5
  int spatial;  // rank - 2
  int x[5], x_strides[5], w[5], w_strides[5], y[5], y_strides[5];
  int padding[3], stride[3], dilation[3];
  int groups;
};
// Nothing where a number is too large for the libraries.
std::optional<ConvDimensions> dimensions_of(const api::ConvShape& shape);

// Most scratch that a convolution may take: algorithms that want more are rarely worth it.
inline constexpr size_t kMaxConvScratch = size_t{512} << 20;

}  // namespace gabbro::gpu
