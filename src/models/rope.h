// The frequencies of rotary embeddings, with the methods in use to stretch a trained context.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gabbro::nn {

// kLongRope and kDynamic go by the length of a text: the caller chooses LongRoPE's divisors, and the base of dynamic
// NTK by dynamic_base().
enum class RopeScaling { kNone, kLinear, kYarn, kLongRope, kDynamic };

struct RopeConfig {
  int64_t dimensions = 0;   // R: how many elements of a head turn
  bool interleaved = true;  // pairs (2i, 2i+1), as llama files are permuted for; otherwise (i, i + R/2)
  double base = 10000;      // the frequency of pair i is base^(-2i/R)
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;             // how much longer the context is than the trained one
  int64_t original_context = 0;  // tokens that the model was trained with, before stretching
  double attention_factor = 1;   // given by the file; on top of YaRN's own
  double extrapolation = 1;      // YaRN's ramp between interpolation (0) and extrapolation (1) of high frequencies
  double beta_fast = 32;
  double beta_slow = 1;
  bool whole_pairs = true;  // the ramp begins and ends at whole pairs
};

struct RopeFrequencies {
  std::vector<float> inverse;  // [R/2], radians per position
  float magnitude = 1;         // factor on cos and sin
};

// The base of dynamic NTK for a text of `length` tokens: the trained one up to the original context, and beyond it what
// transformers takes (_compute_dynamic_ntk_parameters; u/emozilla 2023).
double dynamic_base(const RopeConfig& config, int64_t length);

// `factors` [R/2], or empty: divisors of each frequency (Llama 3's and LongRoPE's tables).
// YaRN: Peng et al. 2023, section 3.2 and 3.3; linear: Chen et al. 2023; LongRoPE: Ding et al. 2024.
RopeFrequencies rope_frequencies(const RopeConfig& config, std::span<const float> factors = {});

}  // namespace gabbro::nn
