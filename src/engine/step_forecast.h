// How long the next step of a Scheduler may take, from the steps before it, and before there are any from the size of
// the model. It does not estimate speed: a watchdog takes a step that is many times slower for one that hangs.
#pragma once

#include <cstdint>

#include "gabbro/engine/session.h"

namespace gabbro {

class StepForecast {
 public:
  explicit StepForecast(const ModelFacts& facts);

  // Seconds for a step of `prompt_tokens` tokens of prompts, and single tokens of texts.
  double seconds(int64_t prompt_tokens) const;
  void measured(int64_t prompt_tokens, double seconds);

 private:
  double pass_seconds_;                         // of a step without prompts
  double token_seconds_;                        // of a prompt's token
  bool has_pass_ = false, has_prompt_ = false;  // they are measured
};

}  // namespace gabbro
