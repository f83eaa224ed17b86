#include "src/formats/hugging_face/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/base/text_file.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDefault = "default";
constexpr size_t kMostTemplateBytes = size_t{16} << 20;

bool has_template_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string read_template(const fs::path& path) {
  std::string text = read_text_file(path.string(), kMostTemplateBytes);
  refuse_foreign(std::as_bytes(std::span(text)), path.string(), FileKind::kTemplate);
  return text;
}

// Raw files: chat_template.jinja is the default one.
ChatTemplates read_raw_files(const fs::path& folder) {
  ChatTemplates found;
  if (const fs::path own = folder / "chat_template.jinja"; has_template_file(own))
    found.sources.emplace_back(kDefault, read_template(own));
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".jinja" && has_template_file(entry->path())) paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  for (const fs::path& path : paths) found.sources.emplace_back(path.stem().string(), read_template(path));
  return found;
}

// The field chat_template of a JSON file; entries that are not templates are passed over.
ChatTemplates read_field(const fs::path& path) {
  ChatTemplates found;
  if (!has_template_file(path)) return found;
  const Json document = read_json_file(path.string());
  const auto field = document.is_object() ? document.find("chat_template") : document.end();
  if (!document.is_object() || field == document.end()) return found;
  if (field->is_string()) found.sources.emplace_back(kDefault, field->get<std::string>());
  if (!field->is_array()) return found;
  for (const Json& entry : *field) {
    const bool whole = entry.is_object() && entry.contains("template") && entry["template"].is_string();
    const bool named = whole && entry.contains("name") && entry["name"].is_string();
    if (whole)
      found.sources.emplace_back(named ? entry["name"].get<std::string>() : "", entry["template"].get<std::string>());
  }
  return found;
}

}  // namespace

const std::string* ChatTemplates::find(const std::string& name) const {
  const std::string* last = nullptr;  // of two that have one name the last counts, as in a dictionary
  for (const auto& [other, source] : sources) last = other == name ? &source : last;
  return last;
}

std::optional<std::string> ChatTemplates::choose(bool with_tools, const std::string& where) const {
  if (sources.empty()) return std::nullopt;
  if (const std::string* source = with_tools ? find("tool_use") : nullptr) return *source;
  if (const std::string* source = find(kDefault)) return *source;
  if (sources.size() == 1) return sources.front().second;
  std::string names;
  for (const auto& [name, source] : sources) names += (names.empty() ? "" : ", ") + quote(name);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: has {} chat templates, and none of them is the default: {}", where, sources.size(), names),
      "--chat-template FILE names the file of one");
}

ChatTemplates read_chat_templates(const std::string& folder) {
  const fs::path path(folder);
  ChatTemplates found = read_raw_files(path);
  if (found.sources.empty()) found = read_field(path / "tokenizer_config.json");
  if (found.sources.empty()) found = read_field(path / "chat_template.json");
  return found;
}

std::optional<std::string> read_chat_template(const std::string& folder) {
  return read_chat_templates(folder).choose(false, folder);
}

}  // namespace gabbro
