// Masks of pictures: which part is redrawn.
#pragma once

#include <vector>

#include "src/images/picture.h"
#include "src/pictures/program_rules.h"

namespace gabbro::pictures {

// How a latent's element gets its share of the pixels below it.
// kAny: 1 where one of them is redrawn; kNearest: the first one of them, 0 or 1 (diffusers); kBilinear: between the
// pixels about its center (ComfyUI); kMean: their mean, rounded (A1111).
enum class MaskReduction { kAny, kNearest, kBilinear, kMean };
MaskReduction mask_reduction(Program program);

// `mask`: gray, 255: redrawn; its sides are multiples of `factor`. Returns [height / factor, width / factor], 0 to 1.
std::vector<float> reduce_mask(const images::Picture& mask, int64_t factor, MaskReduction reduction);

// Gray of an RGB picture, as Pillow converts it (ITU-R 601).
images::Picture to_gray(const images::Picture& rgb);

// `original` where the mask is 0, to the bit; `drawn` where it is 255; else in between, rounded.
void paste_unmasked(images::Picture& drawn, const images::Picture& original, const images::Picture& mask);

// x · mask + known · (1 - mask), the same mask [h, w] for all channels of all pictures.
void keep_unmasked(std::vector<float>& x, const std::vector<float>& known, const std::vector<float>& mask);

}  // namespace gabbro::pictures
