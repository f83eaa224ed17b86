#include "apps/cli/chat_template_argument.h"

#include <filesystem>

#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/text/chat/builtin_templates.h"

namespace gabbro::cli {

std::string read_template_argument(const std::string& name_or_file) {
  if (const auto source = text::find_builtin_template(name_or_file)) return std::string(*source);
  std::error_code ignored;
  if (is_standard_input(name_or_file) || std::filesystem::exists(name_or_file, ignored))
    return read_input(name_or_file);
  std::string names;
  for (const text::BuiltinTemplate& known : text::builtin_templates())
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--chat-template: '{}' is neither a file nor a name", name_or_file),
              "names: " + names);
}

nlohmann::ordered_json read_json_list(const std::string& path, const char* key) {
  using Json = nlohmann::ordered_json;
  Json json = parse_plain_json(read_input(path), is_standard_input(path) ? "standard input" : path);
  if (json.is_object() && json.contains(key)) json = Json(json[key]);
  if (!json.is_array()) throw bad_input("{}: expected a list of {}", path, key);
  return json;
}

void add_template_variable(nlohmann::ordered_json& variables, const std::string& text, const char* option) {
  using Json = nlohmann::ordered_json;
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw bad_input("{}: '{}' is not of the form NAME=VALUE", option, text);
  const std::string value = text.substr(equals + 1);
  Json parsed = Json::parse(value, nullptr, false);
  variables[text.substr(0, equals)] = parsed.is_discarded() ? Json(value) : std::move(parsed);
}

}  // namespace gabbro::cli
