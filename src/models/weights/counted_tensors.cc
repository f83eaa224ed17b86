#include "src/models/weights/counted_tensors.h"

#include "src/models/config/config_class.h"

namespace gabbro::llm {

bool CountedTensors::has(const std::string& name) const {
  constexpr std::string_view kBias = ".bias";
  if (config_.config_class() != nullptr && name.ends_with(kBias)) {
    for (std::string theirs : transformers_names(names_, name)) {
      if (!theirs.ends_with(kBias)) continue;
      theirs.resize(theirs.size() - kBias.size());
      const auto counts = config_.config_class()->has_bias(theirs.substr(theirs.rfind('.') + 1));
      if (counts) return *counts;
    }
  }
  return has_weight(names_, checkpoint_, name);
}

}  // namespace gabbro::llm
