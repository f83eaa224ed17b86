#include "src/pictures/schedules/spaced_sigmas.h"

#include <cmath>

namespace gabbro::pictures {

std::vector<double> linear_points(double first, double last, int64_t count) {
  std::vector<double> points;
  for (int64_t i = 0; i < count; ++i) {
    const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
    points.push_back(i > 0 && i + 1 == count ? last : first + static_cast<double>(i) * step);
  }
  return points;
}

std::vector<double> karras_sigmas(double largest, double smallest, int64_t steps, double rho) {
  const double from = std::pow(largest, 1 / rho), to = std::pow(smallest, 1 / rho);
  std::vector<double> sigmas = linear_points(0, 1, steps);
  for (double& sigma : sigmas) sigma = std::pow(from + sigma * (to - from), rho);
  return sigmas;
}

std::vector<double> exponential_sigmas(double largest, double smallest, int64_t steps) {
  std::vector<double> sigmas = linear_points(std::log(largest), std::log(smallest), steps);
  for (double& sigma : sigmas) sigma = std::exp(sigma);
  return sigmas;
}

std::vector<double> beta_sigmas(double largest, double smallest, int64_t steps) {
  std::vector<double> sigmas = linear_points(0, 1, steps);
  for (double& sigma : sigmas) sigma = smallest + beta_quantile(1 - sigma, 0.6, 0.6) * (largest - smallest);
  return sigmas;
}

std::vector<double> kl_optimal_sigmas(double largest, double smallest, int64_t steps) {
  std::vector<double> sigmas = linear_points(0, 1, steps);
  for (double& sigma : sigmas) sigma = std::tan((1 - sigma) * std::atan(largest) + sigma * std::atan(smallest));
  return sigmas;
}

namespace {

// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method.
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      if (std::fabs(c) < kTiny) c = kTiny;
      change = c * d;
      fraction *= change;
    }
    if (std::fabs(change - 1) < 1e-16) break;
  }
  return fraction;
}

// The regularized incomplete beta function.
double beta_share(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double factor =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? factor * beta_fraction(x, a, b) / a : 1 - factor * beta_fraction(1 - x, b, a) / b;
}

}  // namespace

double beta_quantile(double p, double a, double b) {
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  if (a == b && p == 0.5) return 0.5;  // exact, since callers round its multiples, and this one is a tie
  double low = 0, high = 1;            // halving ends at neighboring numbers
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (beta_share(middle, a, b) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace gabbro::pictures
