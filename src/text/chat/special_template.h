// Post-processors of tokenizer.json: the special tokens around a single text.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/json_node.h"

namespace gabbro::text {

struct SpecialTemplate {
  std::vector<int32_t> prefix, suffix;
};

// The tokens of a node {"type": ...}; ids are in [0, size). Throws bad_input that names the path.
SpecialTemplate read_special_template(const JsonNode& node, int32_t size);

}  // namespace gabbro::text
