#include "src/pictures/schedules/noise_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

// torch.linspace in f32: from both ends to the middle.
std::vector<float> linear_floats(double first, double last, size_t count) {
  const auto start = static_cast<float>(first), end = static_cast<float>(last);
  const float step = count > 1 ? (end - start) / static_cast<float>(count - 1) : 0;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = i < count / 2 ? std::fma(step, static_cast<float>(i), start)
                              : std::fma(-step, static_cast<float>(count - 1 - i), end);
  }
  if (count == 1) values[0] = start;
  return values;
}

double cosine_alpha(double t) { return std::pow(std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2), 2); }

std::vector<float> betas_of(const NoiseTableOptions& o) {
  if (!o.trained_betas.empty()) return o.trained_betas;
  const auto count = static_cast<size_t>(o.timesteps);
  if (o.schedule == BetaSchedule::kLinear) return linear_floats(o.beta_start, o.beta_end, count);
  if (o.schedule == BetaSchedule::kScaledLinear) {
    std::vector<float> betas = linear_floats(std::sqrt(o.beta_start), std::sqrt(o.beta_end), count);
    for (float& beta : betas) beta *= beta;
    return betas;
  }
  std::vector<float> betas(count);
  const auto n = static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    const auto t = static_cast<double>(i);
    betas[i] = static_cast<float>(std::min(1 - cosine_alpha((t + 1) / n) / cosine_alpha(t / n), 0.999));
  }
  return betas;
}

// PyTorch's cumprod adds up in f64, and rounds each product.
std::vector<float> running_products(const std::vector<float>& factors) {
  std::vector<float> products;
  double product = 1;
  for (const float factor : factors) products.push_back(static_cast<float>(product *= factor));
  return products;
}

// β of square roots of alpha_bar that are shifted so that the last is 0, and scaled so that the first stays.
std::vector<float> rescaled_to_zero(const std::vector<float>& betas) {
  std::vector<float> alphas;
  for (const float beta : betas) alphas.push_back(1 - beta);
  std::vector<float> roots = running_products(alphas);
  for (float& root : roots) root = std::sqrt(root);
  const float first = roots.front(), last = roots.back();
  for (float& root : roots) root = (root - last) * (first / (first - last));
  std::vector<float> rescaled;
  for (size_t i = 0; i < roots.size(); ++i) {
    const float bar = roots[i] * roots[i];
    rescaled.push_back(1 - (i == 0 ? bar : bar / (roots[i - 1] * roots[i - 1])));
  }
  return rescaled;
}

}  // namespace

NoiseTable::NoiseTable(const NoiseTableOptions& options) {
  std::vector<float> betas = betas_of(options);
  if (betas.empty()) throw bad_input("a schedule of noise without timesteps");
  if (options.zero_terminal_snr) betas = rescaled_to_zero(betas);
  for (float& beta : betas) beta = 1 - beta;
  alphas_ = running_products(betas);
  for (const float alpha : alphas_) {
    sigmas_.push_back(std::sqrt((1 - alpha) / alpha));
    log_sigmas_.push_back(std::log(sigmas_.back()));
  }
  if (std::isnan(sigmas_.back()) || !std::ranges::is_sorted(sigmas_))
    throw bad_input("the noise of a schedule does not grow with its timesteps");
}

double NoiseTable::sigma_at(double t) const {
  const double last = static_cast<double>(size() - 1), at = std::clamp(t, 0.0, last);
  const auto low = static_cast<size_t>(std::min(std::floor(at), std::max(0.0, last - 1)));
  const size_t high = std::min(low + 1, size() - 1);
  if (at == static_cast<double>(low)) return sigmas_[low];
  if (at == static_cast<double>(high)) return sigmas_[high];
  return sigmas_[low] + (at - static_cast<double>(low)) * (static_cast<double>(sigmas_[high]) - sigmas_[low]);
}

double NoiseTable::log_sigma_at(double t) const {
  const double at = std::clamp(t, 0.0, static_cast<double>(size() - 1));
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, size() - 1);
  const double w = at - static_cast<double>(low);
  return std::exp((1 - w) * log_sigmas_[low] + w * log_sigmas_[high]);
}

double NoiseTable::timestep_of(double sigma) const {
  const double wanted = std::log(std::max(sigma, 1e-10));
  const auto after = std::ranges::upper_bound(log_sigmas_, wanted, {}, [](float value) { return double{value}; });
  const auto below = std::max<std::ptrdiff_t>(0, after - log_sigmas_.begin() - 1);
  const size_t low = std::min(static_cast<size_t>(below), size() > 1 ? size() - 2 : 0);
  const size_t high = std::min(low + 1, size() - 1);
  const double span = static_cast<double>(log_sigmas_[low]) - log_sigmas_[high];
  const double w = span == 0 ? 0 : std::clamp((log_sigmas_[low] - wanted) / span, 0.0, 1.0);
  return (1 - w) * static_cast<double>(low) + w * static_cast<double>(high);
}

}  // namespace gabbro::pictures
