#include "src/hub/model_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/foreign_folder.h"
#include "src/formats/gguf/gguf_split.h"
#include "src/hub/model_folders.h"
#include "src/hub/ollama_layers.h"
#include "src/hub/repo_name.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kNamesInHint = 10;

using hub::variable;

bool same_but_for_case(std::string_view a, std::string_view b) { return hub::lower_case(a) == hub::lower_case(b); }

std::string_view without_extension(std::string_view name) {
  const size_t size = name.size() - std::min(name.size(), kExtension.size());
  return same_but_for_case(name.substr(size), kExtension) ? name.substr(0, size) : name;
}

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored) || fs::exists(folder / "model_index.json", ignored);
}

// Files that vanish or cannot be read meanwhile count nothing.
uint64_t bytes_below(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const uint64_t size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    if (!ignored) sum += size;
  }
  return sum;
}

// `models` by path: parts of one model are added up.
void add_file(const fs::directory_entry& entry, std::map<std::string, CachedModel>& models) {
  const std::string path = entry.path().string(), file = entry.path().filename().string();
  if (without_extension(file).size() == file.size()) return;  // not a .gguf
  std::error_code error;
  uint64_t size = entry.file_size(error);
  if (error) size = 0;  // a link to nothing
  const auto split = gguf::parse_split_name(path);
  const std::string name = split ? fs::path(split->prefix).filename().string() : std::string(without_extension(file));
  const std::string first = split ? split->path(0) : path;
  models.try_emplace(first, CachedModel{.name = name, .path = first}).first->second.bytes += size;
}

// The first part of a GGUF model that is missing, as a problem.
std::string problem_of_file(const std::string& path) {
  const auto split = gguf::parse_split_name(path);
  std::error_code ignored;
  for (uint32_t part = 0; part < (split ? split->count : 1); ++part) {
    const std::string file = split ? split->path(part) : path;
    if (!fs::exists(file, ignored)) return fs::path(file).filename().string() + " is missing";
  }
  return "";
}

// Paths below a folder: files, and links to nothing.
void list_files(const fs::path& folder, std::vector<std::string>& files, std::vector<std::string>& dangling) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string path = entry->path().lexically_relative(folder);
    if (entry->is_regular_file(ignored)) files.push_back(path);
    if (entry->is_symlink(ignored) && !entry->exists(ignored)) dangling.push_back(path);
  }
}

// How to come by a model of that name, which is not there.
std::string hint(const std::string& model, const std::string& folder) {
  if (hub::find_short_name(model) || hub::parse_repo_name(model))
    return fmt::format("gabbro pull {} downloads it from the Hugging Face Hub", model);
  const std::vector<CachedModel> models = own_models();
  if (models.empty()) return fmt::format("give the path of a .gguf file, or put one into {}", folder);
  std::vector<std::string_view> names;
  names.reserve(models.size());
  for (const CachedModel& other : models) names.push_back(other.name);
  const size_t shown = std::min(names.size(), kNamesInHint);
  std::string more = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  names.resize(shown);
  return fmt::format("{} holds {}{}", folder, fmt::join(names, ", "), more);
}

// The model of that name in the cache: its path, or nothing. A file's own name comes before a name without ".gguf", and
// the exact one before one in another case.
std::string find_in_cache(const std::string& model) {
  const std::string_view name = without_extension(model);
  std::vector<CachedModel> found = own_models();
  std::erase_if(found, [&](const CachedModel& other) { return !same_but_for_case(other.name, name); });
  for (const CachedModel& other : found) {
    if (fs::path(other.path).filename() == model) return other.path;
  }
  for (const CachedModel& other : found) {
    if (other.name == name) return other.path;
  }
  if (found.size() > 1) {
    throw bad_input("model {} could be {} or {}: write it in full", quote(model), found[0].name, found[1].name);
  }
  return found.empty() ? "" : found[0].path;
}

}  // namespace

std::string models_folder() {
  const std::string gabbro_home = variable("GABBRO_HOME"), cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (!gabbro_home.empty()) return gabbro_home + "/models";
  if (cache.starts_with('/')) return cache + "/gabbro/models";
  return home.empty() ? "" : home + "/.cache/gabbro/models";
}

const char* name_of(ModelSource source) {
  switch (source) {
    case ModelSource::kGabbro:
      return "gabbro";
    case ModelSource::kHub:
      return "hub";
    case ModelSource::kOllama:
      return "ollama";
    case ModelSource::kLmStudio:
      return "lmstudio";
  }
  return "";
}

std::vector<CachedModel> own_models() {
  std::map<std::string, CachedModel> models;
  std::error_code error;
  const std::string folder = models_folder();
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string path = entry->path().string(), name = entry->path().filename().string();
    const bool leads_nowhere = entry->is_symlink(ignored) && !entry->exists(ignored);
    if (entry->is_regular_file(ignored) || leads_nowhere) add_file(*entry, models);
    if (entry->is_directory(ignored) && is_model_folder(path)) {
      models[path] = {.name = name, .path = path, .bytes = bytes_below(path)};
      std::vector<std::string> files, dangling;
      list_files(path, files, dangling);
      models[path].problem = hub::problem_of_folder(path, files, dangling);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw bad_input("{}: the model cache cannot be read: {}", folder, error.message());
  std::vector<CachedModel> list;
  list.reserve(models.size());
  for (auto& [path, model] : models) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) model.problem = problem_of_file(path);
    list.push_back(std::move(model));
  }
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return list;
}

std::vector<CachedModel> list_models() {
  std::vector<CachedModel> models = own_models();
  for (const auto& others : {hub::hub_models(), hub::ollama_models(), hub::lm_studio_models()})
    models.insert(models.end(), others.begin(), others.end());
  return models;
}

namespace {

// The path of a model by its name, and its manifest if it is Ollama's.
std::optional<hub::OllamaModel> find_named(const std::string& name) {
  if (std::string path = find_in_cache(name); !path.empty()) return hub::OllamaModel{path, {}};
  const auto short_name = hub::find_short_name(name);
  if (const auto repo = short_name ? short_name : hub::parse_repo_name(name)) {
    if (auto path = hub::find_hub_model(*repo)) return hub::OllamaModel{*path, {}};
    if (auto path = hub::find_lm_studio_model(*repo)) return hub::OllamaModel{*path, {}};
  }
  return hub::find_ollama_model(name);
}

hub::OllamaModel resolve(const std::string& model) {
  std::error_code ignored;
  const bool exists = !model.empty() && fs::exists(model, ignored);
  if (exists && (!fs::is_directory(model, ignored) || is_model_folder(model))) return {model, {}};
  if (const auto found = find_named(model)) return *found;
  if (exists) {
    refuse_adapter_folder(model);
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is a folder, but holds no model", model), folder_hint(model));
  }
  const auto short_name = hub::find_short_name(model);
  if (const auto repo = short_name ? short_name : hub::parse_repo_name(model)) hub::refuse_broken_hub_model(*repo);
  hub::refuse_broken_ollama_model(model);
  const std::string folder = models_folder();
  throw Error(ErrorCode::kBadInput, fmt::format("no model {}: neither a file nor in the cache", quote(model)),
              hint(model, folder.empty() ? "$GABBRO_HOME/models" : folder));
}

}  // namespace

std::optional<std::string> find_model(const std::string& name) {
  const auto found = find_named(name);
  return found ? std::optional(found->path) : std::nullopt;
}

std::string resolve_model(const std::string& model) { return resolve(model).path; }

ResolvedModel resolve_with_layers(const std::string& model) {
  const hub::OllamaModel found = resolve(model);
  if (found.entry.name.empty()) return {found.path, nullptr};
  auto layers = std::make_shared<const hub::OllamaLayers>(hub::read_ollama_layers(found.entry));
  return {found.path, layers->empty() ? nullptr : std::move(layers)};
}

}  // namespace gabbro
