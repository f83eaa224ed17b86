// Small pictures of latents, before these are decoded.
#pragma once

#include "src/images/picture.h"
#include "src/pictures/pipeline.h"

namespace gabbro::pictures {

// One pixel an element of the latent, by a linear map of its four channels to RGB: rough colors, no detail. Latents of
// other channels become gray.
images::Picture linear_preview(const PictureStep& step);

}  // namespace gabbro::pictures
