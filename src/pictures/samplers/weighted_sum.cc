#include "src/pictures/samplers/weighted_sum.h"

#include <algorithm>
#include <cmath>

namespace gabbro::pictures {

Latent weighted_sum(std::initializer_list<WeightedLatent> terms) {
  const size_t count = terms.begin()->latent.size();
  std::vector<double> sums(count, 0.0);
  for (const WeightedLatent& term : terms) {
    if (term.factor == 0) continue;  // an infinite one of nothing
    for (size_t i = 0; i < count; ++i) sums[i] += term.factor * term.latent[i];
  }
  return {sums.begin(), sums.end()};
}

AncestralStep ancestral_step(double from, double to, double eta) {
  const double up = std::min(to, eta * std::sqrt(std::max(0.0, to * to * (from * from - to * to) / (from * from))));
  return {.down = std::sqrt(to * to - up * up), .up = up};
}

}  // namespace gabbro::pictures
