// The class of a configuration's type that a pack tests, and what its forward() takes.
#pragma once

#include <string>
#include <vector>

#include "src/testgen/pack.h"

namespace gabbro::testgen {

struct ModelChoice {
  std::string type, model_class, auto_class, task, family;
  Signature signature;
  std::vector<std::string> notes;
};

// Throws bad_input as make_pack does.
ModelChoice choose_model(const Source& source, const std::string& task);

}  // namespace gabbro::testgen
