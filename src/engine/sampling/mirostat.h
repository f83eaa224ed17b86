// Mirostat (Basu et al. 2021): truncation that steers the surprise of what is said toward tau bits.
#pragma once

#include "src/engine/sampling/candidates.h"

namespace gabbro::sampling {

class Mirostat {
 public:
  // `version` 1 estimates Zipf's exponent and keeps that many tokens; 2 drops tokens more surprising than mu.
  Mirostat(int version, float tau, float eta, int64_t vocabulary)
      : version_(version), tau_(tau), eta_(eta), vocabulary_(vocabulary), mu_(2 * tau) {}

  // Leaves the candidates to draw from, with their probabilities.
  void truncate(Candidates& candidates) const;

  // Learns from the probability of the token that was drawn.
  void observe(float probability);

  float mu() const { return mu_; }

 private:
  size_t zipf_count(Candidates& candidates) const;

  int version_;
  float tau_;
  float eta_;
  int64_t vocabulary_;
  float mu_;  // bits
};

}  // namespace gabbro::sampling
