// tests/data/sampler/steps.json, for tests of samplers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/mapped_file.h"

namespace gabbro::sampling {

inline const nlohmann::json& fixture() {
  static const auto document = nlohmann::json::parse(read_file(GABBRO_SOURCE_DIR "/tests/data/sampler/steps.json"));
  return document;
}

inline std::vector<float> logits_named(const nlohmann::json& name) {
  return fixture()["logits"][name.get<std::string>()].get<std::vector<float>>();
}

}  // namespace gabbro::sampling
