// Tools for models whose chat template has no place for them: described in a system message, called by an object of
// JSON (ToolCallFormat::kGeneric), and with their results in messages of the user.
#pragma once

#include <nlohmann/json.hpp>

namespace gabbro::text {

// `messages` as a template without tools takes them. `tools`: as other templates take them.
nlohmann::ordered_json with_generic_tools(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools);

}  // namespace gabbro::text
