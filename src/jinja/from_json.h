// JSON as values of a template.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "src/jinja/value.h"

namespace gabbro::jinja {

// Key order is kept. Strings are input of `source`, or not marked if that is null. `depth` is the nesting of containers
// around it. Throws bad_input for JSON that nests too deeply, and for integers of more than 64 bits.
Value from_json(const nlohmann::ordered_json& json, const int32_t* source = nullptr, int depth = 0);

}  // namespace gabbro::jinja
