#include "src/pictures/latent_resize.h"

#include <algorithm>

namespace gabbro::pictures {
namespace {

// Neighbors of an element of the result on one axis.
struct Between {
  size_t low = 0, high = 0;
  float share = 0;  // of `high`
};

std::vector<Between> places_of(int64_t from, int64_t to) {
  std::vector<Between> places;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float at = std::max(0.0f, scale * (static_cast<float>(i) + 0.5f) - 0.5f);
    const auto low = static_cast<int64_t>(at);
    places.push_back({.low = static_cast<size_t>(low),
                      .high = static_cast<size_t>(std::min(low + 1, from - 1)),
                      .share = at - static_cast<float>(low)});
  }
  return places;
}

}  // namespace

std::vector<float> resize_bilinear(const std::vector<float>& latent, const std::array<int64_t, 2>& from,
                                   const std::array<int64_t, 2>& to) {
  const std::vector<Between> rows = places_of(from[0], to[0]), columns = places_of(from[1], to[1]);
  const auto width = static_cast<size_t>(from[1]), plane = static_cast<size_t>(from[0] * from[1]);
  std::vector<float> resized;
  for (size_t first = 0; first + plane <= latent.size(); first += plane) {
    for (const Between& y : rows) {
      const float* const above = &latent[first + y.low * width];
      const float* const below = &latent[first + y.high * width];
      for (const Between& x : columns) {
        const float top = above[x.low] + x.share * (above[x.high] - above[x.low]);
        const float bottom = below[x.low] + x.share * (below[x.high] - below[x.low]);
        resized.push_back(top + y.share * (bottom - top));
      }
    }
  }
  return resized;
}

}  // namespace gabbro::pictures
