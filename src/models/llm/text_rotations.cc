#include "src/models/llm/text_rotations.h"

#include <cstdlib>
#include <limits>

namespace gabbro::llm {

int64_t TextRotations::of(int64_t length) const {
  if (length <= rope_.original_context) return 0;
  return is_dynamic() ? length : 1;
}

int64_t TextRotations::of_growing(int64_t length, int64_t present) const {
  constexpr int64_t kParts = 64;   // the base is at most 2 % from that of the length, times the factor
  constexpr int64_t kShort = 512;  // tokens: no model in use is trained for less, and they are soon computed again
  const bool is_near = present >= kShort && std::abs(length - present) <= present / kParts;
  return is_dynamic() && length > rope_.original_context && is_near ? present : of(length);
}

int64_t TextRotations::room(int64_t length) const {
  if (length < rope_.original_context) return rope_.original_context - length;
  const bool changes = is_dynamic() || length == rope_.original_context;
  return changes ? 0 : std::numeric_limits<int64_t>::max();
}

std::vector<float> TextRotations::frequencies(int64_t rotation) const {
  nn::RopeConfig config = rope_;
  if (is_dynamic()) config.base = nn::dynamic_base(rope_, rotation);
  return nn::rope_frequencies(config, rotation > 0 && !is_dynamic() ? long_divisors_ : divisors_).inverse;
}

}  // namespace gabbro::llm
