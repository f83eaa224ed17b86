// Schedules by the names of A1111 and ComfyUI.
#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/pictures/schedules/schedule.h"
#include "src/pictures/schedules/spaced_sigmas.h"

namespace gabbro::pictures {
namespace {

using Sigmas = std::vector<double>;

Sigmas normal_sigmas(const NoiseTable& table, int64_t steps) {
  Sigmas sigmas = linear_points(static_cast<double>(table.size() - 1), 0, steps);
  for (double& sigma : sigmas) sigma = table.log_sigma_at(sigma);
  return sigmas;
}

Sigmas sgm_uniform_sigmas(const NoiseTable& table, int64_t steps) {
  Sigmas sigmas = linear_points(static_cast<double>(table.size() - 1), 0, steps + 1);
  sigmas.pop_back();
  for (double& sigma : sigmas) sigma = table.log_sigma_at(sigma);
  return sigmas;
}

Sigmas simple_sigmas(const NoiseTable& table, int64_t steps) {
  const double stride = static_cast<double>(table.size()) / static_cast<double>(steps);
  Sigmas sigmas;
  for (int64_t i = 0; i < steps; ++i)
    sigmas.push_back(table.sigma(table.size() - 1 - static_cast<size_t>(static_cast<double>(i) * stride)));
  return sigmas;
}

// Every (size / steps)th sigma from the second one on.
Sigmas ddim_uniform_sigmas(const NoiseTable& table, int64_t steps) {
  const size_t stride = std::max<size_t>(table.size() / static_cast<size_t>(steps), 1);
  Sigmas sigmas;
  for (size_t t = 1; t < table.size(); t += stride) sigmas.push_back(table.sigma(t));
  std::ranges::reverse(sigmas);
  return sigmas;
}

Sigmas beta_named_sigmas(const NoiseTable& table, int64_t steps) {
  Sigmas sigmas;
  double last = -1;
  for (int64_t i = 0; i < steps; ++i) {
    const double p = 1 - static_cast<double>(i) / static_cast<double>(steps);
    const double t = std::nearbyint(beta_quantile(p, 0.6, 0.6) * static_cast<double>(table.size() - 1));
    if (t != last) sigmas.push_back(table.sigma(static_cast<size_t>(t)));
    last = t;
  }
  return sigmas;
}

using MakeSigmas = Sigmas (*)(const NoiseTable& table, int64_t steps);
template <std::vector<double> (*spaced)(double, double, int64_t)>
Sigmas between_ends(const NoiseTable& table, int64_t steps) {
  return spaced(table.sigma(table.size() - 1), table.sigma(0), steps);
}
Sigmas karras_named_sigmas(const NoiseTable& table, int64_t steps) {
  return karras_sigmas(table.sigma(table.size() - 1), table.sigma(0), steps);
}

struct NamedSchedule {
  const char* name;
  MakeSigmas sigmas;
};
constexpr NamedSchedule kNamed[] = {
    {"normal", normal_sigmas},           {"simple", simple_sigmas},
    {"sgm_uniform", sgm_uniform_sigmas}, {"ddim_uniform", ddim_uniform_sigmas},
    {"karras", karras_named_sigmas},     {"exponential", between_ends<exponential_sigmas>},
    {"beta", beta_named_sigmas},         {"kl_optimal", between_ends<kl_optimal_sigmas>}};

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedSchedule& named : kNamed) all.emplace_back(named.name);
    return all;
  }();
  return names;
}

Schedule make_named_schedule(std::shared_ptr<const NoiseTable> table, const std::string& name, int64_t steps) {
  const auto* const found = std::ranges::find(kNamed, name, &NamedSchedule::name);
  if (found == std::end(kNamed)) {
    throw Error(ErrorCode::kBadInput, fmt::format("unknown schedule '{}'", name),
                fmt::format("schedules: {}", fmt::join(schedule_names(), ", ")));
  }
  if (steps < 1 || steps > static_cast<int64_t>(table->size()))
    throw bad_input("{} steps: the model has 1 to {} timesteps", steps, table->size());
  Schedule schedule{.table = table};
  for (double sigma : found->sigmas(*table, steps)) {
    if (std::isinf(sigma)) sigma = 4096;  // of the smallest f16: noise alone has no ratio
    schedule.levels.push_back({.ratio = sigma, .timestep = table->timestep_of(sigma)});
  }
  schedule.targets.assign(schedule.levels.begin() + 1, schedule.levels.end());
  schedule.targets.push_back({});
  schedule.start_scale = schedule.levels.front().sigma();
  return schedule;
}

}  // namespace gabbro::pictures
