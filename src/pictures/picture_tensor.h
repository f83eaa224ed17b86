// Pictures as tensors of an autoencoder.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "gabbro/tensor/tensor.h"
#include "src/backend/device.h"
#include "src/images/picture.h"

namespace gabbro::pictures {

// The pixels u8 [H, W, 3] of a decoded tensor f32 [1, 3, H, W] whose values are scaled and shifted to 0 .. 1, and one
// number u8 [], 0 if there are values that are not numbers. Not evaluated.
std::vector<Tensor> pixels_of(const Tensor& decoded, float scale, float shift);
// The pixels of a decoded tensor f32 [1, 3, H, W] whose values are scaled and shifted to 0 .. 1, as its device makes
// them; none if there are values that are not numbers. When `cancel` becomes true: kInterrupted.
std::optional<images::Picture> picture_if_finite(const Tensor& decoded, float scale, float shift,
                                                 const std::atomic<bool>* cancel = nullptr);
// Likewise; throws failed() for values that are not numbers.
images::Picture picture_of(const Tensor& decoded, float scale, float shift, const std::atomic<bool>* cancel = nullptr);

// An RGB picture as f32 [1, 3, H, W] in -1 .. 1; 0 where a gray picture of its sides, `hidden`, is 128 and more.
Tensor tensor_of(const images::Picture& picture, Device& device, const images::Picture* hidden = nullptr);

}  // namespace gabbro::pictures
