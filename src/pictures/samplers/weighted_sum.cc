#include "src/pictures/samplers/weighted_sum.h"

#include <algorithm>
#include <cmath>

namespace gabbro::pictures {

Latent weighted_sum(std::initializer_list<WeightedLatent> terms) {
  constexpr size_t kBlock = 512;  // sums stay in the first-level cache
  const size_t count = terms.begin()->latent.size();
  Latent result(count);
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t length = std::min(kBlock, count - first);
    double sums[kBlock] = {};
    for (const WeightedLatent& term : terms) {
      if (term.factor == 0) continue;  // an infinite one of nothing
      const float* const values = term.latent.data() + first;
      for (size_t i = 0; i < length; ++i) sums[i] += term.factor * values[i];
    }
    for (size_t i = 0; i < length; ++i) result[first + i] = static_cast<float>(sums[i]);
  }
  return result;
}

AncestralStep ancestral_step(double from, double to, double eta) {
  const double up = std::min(to, eta * std::sqrt(std::max(0.0, to * to * (from * from - to * to) / (from * from))));
  return {.down = std::sqrt(to * to - up * up), .up = up};
}

}  // namespace gabbro::pictures
