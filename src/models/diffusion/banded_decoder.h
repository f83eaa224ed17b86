// The decoder of an autoencoder, layer by layer in bands of rows.
#pragma once

#include <atomic>

#include "src/models/diffusion/autoencoder.h"

namespace gabbro::diffusion {

struct BandOptions {
  int64_t elements = int64_t{1} << 22;        // of an activation in a band, about; bands have a row at least
  const std::atomic<bool>* cancel = nullptr;  // asked in each band
};

// As Autoencoder::decode() of a latent f32 [1, C, h, w], evaluated. Each layer reads the rows next to a band too, and
// a norm has the moments of the whole picture, so that the result has no seams. Outputs of layers are stored in f16
// with a scale for each band, which rounds the result by less than 1 of 255 levels. Throws kInterrupted.
Tensor decode_in_bands(const Autoencoder& autoencoder, const Tensor& latent, const BandOptions& options);

}  // namespace gabbro::diffusion
