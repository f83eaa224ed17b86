// Whether a latent is decoded whole or in bands of rows.
#pragma once

#include "src/models/diffusion/autoencoder.h"
#include "src/pictures/picture_request.h"

namespace gabbro::pictures {

// `latent_elements`: height · width of the latent. kAuto looks at the largest activation in `dtype`.
bool decodes_in_bands(const diffusion::AutoencoderConfig& config, DecodeBands bands, int64_t latent_elements,
                      DType dtype);

}  // namespace gabbro::pictures
