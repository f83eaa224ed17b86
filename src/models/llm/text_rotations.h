// Rotations that go by the length of a text: LongRoPE has divisors for texts up to the original context and for longer
// ones, dynamic NTK a base for each length beyond the trained one. All keys of a text have the rotation that one
// forward pass over the whole text gives them.
#pragma once

#include <cstdint>
#include <vector>

#include "src/models/config/rope_config.h"

namespace gabbro::llm {

class TextRotations {
 public:
  // Rotations that a text of at most `context` tokens can have. `divisors` and `long_divisors` [R/2], or empty.
  TextRotations(const ModelRope& rope, std::vector<float> divisors, std::vector<float> long_divisors)
      : rope_(rope), divisors_(std::move(divisors)), long_divisors_(std::move(long_divisors)) {}

  // A number that names the rotation of a text of `length` tokens; 0 up to the original context.
  int64_t of(int64_t length) const;
  // For a text that grows token by token, whose keys have the rotation `present`. A rotation of dynamic NTK stays
  // from 512 tokens on while the lengths differ by a 64th at most: a cache of n tokens is computed again every n/64
  // tokens.
  int64_t of_growing(int64_t length, int64_t present) const;
  // Tokens by which a text of `length` tokens can grow without another rotation.
  int64_t room(int64_t length) const;
  // [R/2]
  std::vector<float> frequencies(int64_t rotation) const;

 private:
  bool is_dynamic() const { return rope_.scaling == nn::RopeScaling::kDynamic; }

  ModelRope rope_;
  std::vector<float> divisors_, long_divisors_;
};

}  // namespace gabbro::llm
