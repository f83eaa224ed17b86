// Convolutions as products of matrices by a vendor's library: of the filters and the image, where the filters have one
// tap, else of the filters and columns that im2col makes in scratch memory, for some images at a time.
#pragma once

#include <memory>
#include <string>

#include "backends/common/window_request.h"
#include "backends/gpu/kernel.h"
#include "kernels/conv/window.h"

namespace gabbro::gpu {

WindowAxes axes_of_window(const abi::Window& window);

// Whether each output sees one input, at its own place, so that there is nothing to make columns of.
bool is_pointwise(const abi::ConvRequest& conv);

// Null where there are groups, or the library is missing or does not take the product.
std::unique_ptr<Kernel> make_product_conv(const abi::ConvRequest& conv, const std::string& library,
                                          const MakeContext& context);

}  // namespace gabbro::gpu
