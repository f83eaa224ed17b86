// The rules of data/shrink.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::testgen {

// How a field becomes smaller.
enum class Kind {
  kKeep,
  kMin,         // at most `to`
  kLayers,      // as kMin; lists of as many elements are cut with it
  kHeads,       // at most `to`, and a divisor of the width
  kHeadSize,    // as kMin, but not in Size::kHeads
  kKvHeads,     // keeps its relation to the heads: equal, one, or fewer
  kVocabulary,  // as kMin
  kToken,       // ids beyond the vocabulary move to its end
  kImage,       // `to` patches
  kPatch,       // as kMin, but not where stages halve the image
  kStages,      // lists: each element at most `to`
  kWidths,      // as kMin; lists are scaled
};

struct ShrinkRule {
  std::vector<std::string> fields;  // "*" stands for any text
  Kind kind = Kind::kKeep;
  int64_t to = 0;
};

// The first rule that names the field; null where none does.
const ShrinkRule* find_shrink_rule(std::string_view field);

// Whether `text` is an instance of `pattern`.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace gabbro::testgen
