// Linear multistep of Adams and Bashforth in sigma, as k-diffusion and diffusers have it.
#include <array>

#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {
namespace {

constexpr size_t kOrder = 4;

// The integral from `from` to `to` of the Lagrange polynomial that is 1 at points[which] and 0 at the other points.
// Gauss-Legendre with two points is exact up to degree 3.
double lagrange_integral(const std::vector<double>& points, size_t which, double from, double to) {
  const double middle = (from + to) / 2, half = (to - from) / 2, offset = 1 / std::sqrt(3.0);
  double sum = 0;
  for (const double at : {middle - half * offset, middle + half * offset}) {
    double value = 1;
    for (size_t k = 0; k < points.size(); ++k) {
      if (k != which) value *= (at - points[k]) / (points[which] - points[k]);
    }
    sum += value;
  }
  return half * sum;
}

}  // namespace

Latent sample_lms(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  std::vector<Latent> slopes;  // the last ones, newest first
  std::vector<double> ratios;  // where they are
  x = to_ratio_form(x, s.levels.front());
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio, to = s.targets[i].ratio;
    const Latent picture = picture_in(x, s.levels[i], run.model);
    slopes.insert(slopes.begin(), weighted_sum({{1 / from, x}, {-1 / from, picture}}));
    ratios.insert(ratios.begin(), from);
    if (slopes.size() > kOrder) {
      slopes.pop_back();
      ratios.pop_back();
    }
    std::array<double, kOrder> factors{};
    for (size_t k = 0; k < slopes.size(); ++k) factors[k] = lagrange_integral(ratios, k, from, to);
    const auto slope = [&](size_t k) -> const Latent& { return slopes[std::min(k, slopes.size() - 1)]; };
    x = weighted_sum(
        {{1, x}, {factors[0], slope(0)}, {factors[1], slope(1)}, {factors[2], slope(2)}, {factors[3], slope(3)}});
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

}  // namespace gabbro::pictures
