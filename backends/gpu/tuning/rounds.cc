#include "backends/gpu/tuning/rounds.h"

#include <algorithm>
#include <cmath>

namespace gabbro::gpu {

CandidateTimes time_candidates(std::span<const double> guesses, const std::function<Timing(size_t, double)>& time,
                               const RoundsOptions& options) {
  std::vector<size_t> order;
  std::vector<double> seconds(guesses.begin(), guesses.end());
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] > 0) order.push_back(i);
  }
  for (double spent = 0; spent < options.warm_seconds;) {
    const Timing timing = time(order.front(), seconds[order.front()]);
    seconds[order.front()] = timing.launch;
    spent += std::max(timing.total, 1e-6);
  }
  CandidateTimes result;
  result.ratios.resize(seconds.size());
  std::vector<std::vector<double>> ratios(seconds.size());  // of each round
  bool agreed = false;
  while (!agreed && result.rounds < options.max_rounds) {
    // There and back: the mean is that of a clock in the middle of the round for each of them.
    for (const size_t i : order) seconds[i] = time(i, seconds[i]).launch;
    for (size_t k = order.size(); k-- > 0;) {
      const size_t i = order[k];
      seconds[i] = (seconds[i] + time(i, seconds[i]).launch) / 2;
    }
    const double best = seconds[*std::ranges::min_element(order, {}, [&](size_t i) { return seconds[i]; })];
    result.fastest = result.rounds == 0 ? best : std::min(result.fastest, best);
    agreed = result.rounds > 0;
    for (const size_t i : order) {
      const double ratio = seconds[i] / best;
      agreed = agreed && std::abs(ratio - ratios[i].back()) <= options.agreement * ratio;
      ratios[i].push_back(ratio);
    }
    if (result.rounds++ == 0) std::erase_if(order, [&](size_t i) { return ratios[i].back() > options.hopeless; });
  }
  double least = 0;
  for (size_t i = 0; i < ratios.size(); ++i) {
    std::vector<double>& own = ratios[i];
    if (own.empty()) continue;
    // Two rounds that agree, else what most rounds say.
    const bool pair = agreed && own.size() > 1;
    std::ranges::sort(own.begin(), pair ? own.begin() : own.end());
    result.ratios[i] = pair ? (own.back() + own[own.size() - 2]) / 2 : own[own.size() / 2];
    if (least == 0 || result.ratios[i] < least) least = result.ratios[i];
  }
  for (double& ratio : result.ratios) ratio /= least;
  result.chosen = static_cast<size_t>(
      std::ranges::find_if(result.ratios, [&](double ratio) { return ratio > 0 && ratio <= 1 + options.margin; }) -
      result.ratios.begin());
  return result;
}

}  // namespace gabbro::gpu
