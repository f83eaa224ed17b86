// Classifier-free guidance (Ho and Salimans 2021).
#pragma once

#include <span>
#include <vector>

namespace gabbro::pictures {

// without + scale · (with - without), element by element; and, for `rescale` > 0, its standard deviation moved to that
// of `with` by this share (Lin et al. 2024, section 3.4).
std::vector<float> guided(std::span<const float> without, std::span<const float> with, double scale,
                          double rescale = 0);

}  // namespace gabbro::pictures
