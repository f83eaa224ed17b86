// One token of each row of logits, drawn on the device: the steps of Sampler (gabbro/engine/sampler.h) that need
// nothing but the row, its parameters and a random number.
#pragma once

#include "src/tensor/tensor.h"

namespace gabbro {

// The parameters of R rows of logits, in the order and with the meaning of SamplerOptions.
struct SamplingRows {
  // f32 [R, 7]: temperature (0: the largest logit), top_k (0: off), top_p (1: off), log(min_p) (-inf: off),
  // repeat_penalty (1: off), frequency_penalty, presence_penalty.
  Tensor settings;
  // i32 [R, 2]: the low and the high word of 64 random bits, whose upper 53 are the draw.
  Tensor draws;
  // Both undefined, or the tokens whose logits change, each once in a row: i32 [R, E, 2] of (token, count in the
  // penalty window), -1 for none; and f32 [R, E], what is added to the logit before the penalties.
  Tensor edits;
  Tensor bias;
};

struct SampledTokens {
  Tensor tokens;  // i32 [R, 1]: -1 where no logit is a number above -inf
  // f32 [R, 3]: log probability of the token among those that could be drawn; how far the draw, and the sum of top_p,
  // is from the nearest value at which another token would be chosen, or kept (1: they play no part).
  Tensor measures;
};

// logits f32 [R, V], V below 2^24. Ties go to the lowest id; NaN and -inf are never chosen; +inf is the largest number.
SampledTokens sample_tokens(const Tensor& logits, const SamplingRows& rows);

}  // namespace gabbro
