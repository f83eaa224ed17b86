// Log-probabilities of tokens.
#pragma once

#include <cstddef>
#include <span>

#include "gabbro/engine/sampler.h"

namespace gabbro::sampling {

// The score of `token` for logits [V], and the `top` most likely tokens, the lowest id first among equals. NaN counts
// as -inf.
TokenScore score_of(std::span<const float> logits, int32_t token, size_t top);

}  // namespace gabbro::sampling
