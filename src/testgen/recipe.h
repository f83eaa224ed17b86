// How a pack makes the inputs of its model: pieces of Python, chosen by the arguments of forward() (data/recipes.json).
#pragma once

#include <string>
#include <vector>

#include "src/testgen/model_choice.h"

namespace gabbro::testgen {

struct Recipe {
  std::string title;               // "token ids and pixels"
  std::vector<std::string> names;  // of the pieces
  std::vector<std::string> lines;  // without indentation

  bool has(std::string_view piece) const;
};

// Throws bad_input where a required argument has no piece.
Recipe choose_recipe(const Source& source, const ModelChoice& model, const Json& config);

}  // namespace gabbro::testgen
