// Latents at another size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace gabbro::pictures {

// Channels [C, height, width] between the nearest elements, as PyTorch's interpolate(mode="bilinear") computes them.
// Sides: {height, width}.
std::vector<float> resize_bilinear(const std::vector<float>& latent, const std::array<int64_t, 2>& from,
                                   const std::array<int64_t, 2>& to);

}  // namespace gabbro::pictures
