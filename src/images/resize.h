// Pictures at another size, to the bit of Pillow.
#pragma once

#include "src/images/picture.h"

namespace gabbro::images {

// Lanczos of three lobes, as Image.resize(..., LANCZOS) computes it: columns first, then rows, each rounded to 8 bits.
// Texts stay. Throws bad_input for sides below 1.
Picture resize_lanczos(const Picture& picture, int64_t width, int64_t height);

// Gaussian blur of a gray picture, as ImageFilter.GaussianBlur(radius) computes it: three box blurs whose box has the
// variance of the Gaussian. Radius 0: unchanged.
Picture blur_gaussian(const Picture& gray, double radius);

}  // namespace gabbro::images
