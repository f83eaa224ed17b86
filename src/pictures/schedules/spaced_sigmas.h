// Sigmas between a largest and a smallest one, without the 0 that follows them.
#pragma once

#include <cstdint>
#include <vector>

namespace gabbro::pictures {

std::vector<double> karras_sigmas(double largest, double smallest, int64_t steps, double rho = 7);
std::vector<double> exponential_sigmas(double largest, double smallest, int64_t steps);
std::vector<double> beta_sigmas(double largest, double smallest, int64_t steps);
std::vector<double> kl_optimal_sigmas(double largest, double smallest, int64_t steps);

// The p-quantile of a beta distribution, 0 <= p <= 1.
double beta_quantile(double p, double a, double b);

// numpy.linspace
std::vector<double> linear_points(double first, double last, int64_t count);

}  // namespace gabbro::pictures
