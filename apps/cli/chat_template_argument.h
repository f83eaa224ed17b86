// Chat templates and their variables as options name them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/text/chat/chat_template.h"

namespace gabbro::cli {

// The source of a template: a name of text::builtin_templates(), else a file. Throws bad_input that lists the names
// where it is neither.
std::string read_template_argument(const std::string& name_or_file);

// A JSON list from a file, or the list under `key` of an object, as requests to a server have it.
nlohmann::ordered_json read_json_list(const std::string& path, const char* key);

// Adds "name=value" to an object; the value is JSON where it can be read so, else a text. Throws bad_input that names
// `option`.
void add_template_variable(nlohmann::ordered_json& variables, const std::string& text, const char* option);

}  // namespace gabbro::cli
