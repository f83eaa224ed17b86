// The steps that remove candidates. Each keeps at least one.
#pragma once

#include <span>

#include "gabbro/sampling_options.h"
#include "src/engine/sampling/candidates.h"
#include "src/engine/sampling/draws.h"

namespace gabbro::sampling {

// Locally typical sampling (Meister et al. 2022): the tokens whose surprise is nearest to the entropy, until their
// probabilities sum to more than p.
void typical(Candidates& candidates, float p);

// Nucleus sampling (Holtzman et al. 2020): the fewest most likely tokens whose probabilities sum to p or more.
void top_p(Candidates& candidates, float p);

// Tokens at least p times as likely as the most likely one (Nguyen et al. 2024).
void min_p(Candidates& candidates, float p);

// "Exclude top choices": of the tokens with a probability of at least `threshold`, only the least likely one stays.
// The caller has already drawn whether this happens.
void xtc(Candidates& candidates, float threshold);

// A step of the chain after top-k.
struct Truncation {
  bool (*is_on)(const SamplerOptions& options);
  void (*apply)(Candidates& candidates, const SamplerOptions& options, Draws& draws);
  bool on_device = false;  // the op `sampling` has it; else the host chooses the tokens of rows that use it
};

// All steps, in the order of the chain.
std::span<const Truncation> truncations();

}  // namespace gabbro::sampling
