#include "src/engine/step_forecast.h"

#include <algorithm>

namespace gabbro {
namespace {

// A slow machine: two old cores on one channel of memory.
constexpr double kSlowBandwidth = 2e9;  // bytes/s
constexpr double kSlowCompute = 5e10;   // multiplications and additions a second
// A slower step counts at once, a faster one by a sixteenth.
constexpr int64_t kFewTokens = 64;  // whose time is that of a pass
constexpr double kDecay = 1.0 / 16;

void take_measured(double& value, bool& is_measured, double seconds) {
  value = is_measured && seconds < value ? value + kDecay * (seconds - value) : seconds;
  is_measured = true;
}

}  // namespace

StepForecast::StepForecast(const ModelFacts& facts)
    : pass_seconds_(static_cast<double>(facts.weight_bytes) / kSlowBandwidth + facts.streaming.seconds_per_pass),
      token_seconds_(2 * static_cast<double>(facts.parameters) / kSlowCompute) {}

double StepForecast::seconds(int64_t prompt_tokens) const {
  return pass_seconds_ + token_seconds_ * static_cast<double>(prompt_tokens);
}

void StepForecast::measured(int64_t prompt_tokens, double seconds) {
  if (prompt_tokens < kFewTokens) return take_measured(pass_seconds_, has_pass_, seconds);
  take_measured(token_seconds_, has_prompt_, seconds / static_cast<double>(prompt_tokens));
}

}  // namespace gabbro
