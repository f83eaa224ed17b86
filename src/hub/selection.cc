#include "src/hub/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/gguf_files.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

bool matches(const std::vector<std::string>& patterns, const std::string& path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
    return fnmatch(whole.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
  });
}

std::vector<std::string> paths_of(const std::vector<RepoFile>& files) {
  std::vector<std::string> paths;
  paths.reserve(files.size());
  for (const RepoFile& file : files) paths.push_back(file.path);
  return paths;
}

std::vector<RepoFile> files_of(const std::vector<RepoFile>& files, const std::vector<std::string>& paths) {
  std::vector<RepoFile> found;
  std::ranges::copy_if(files, std::back_inserter(found),
                       [&](const RepoFile& file) { return std::ranges::find(paths, file.path) != paths.end(); });
  return found;
}

bool is_in_root(const std::string& path) { return path.find('/') == std::string::npos; }

// Compares by the name in lower case.
bool is_document(const std::string& file) {
  return file.starts_with("license") || file.starts_with("notice") || file == "readme.md";
}

// Weights, configuration, tokenizer, templates.
bool has_type(const std::string& file) {
  constexpr std::array<std::string_view, 6> kTypes = {".safetensors", ".json", ".jinja", ".model", ".txt", ".tiktoken"};
  return file.front() != '.' &&
         std::ranges::any_of(kTypes, [&](std::string_view type) { return file.ends_with(type); });
}

// A file of a model folder in the layout of transformers: in the root, and no weights of other frameworks.
bool belongs_to_folder(const std::string& path, bool has_model_weights) {
  const std::string file = lower_case(path);
  if (!is_in_root(path)) return false;
  if (has_model_weights && file.starts_with("consolidated")) return false;  // the same weights in another layout
  return is_document(file) || has_type(file);
}

// A file of a folder in the layout of diffusers: one folder for each of the pipeline's models. Variants in another type
// (x.fp16.safetensors) are left out, and so are weights of other programs in the root.
bool belongs_to_pipeline(const std::string& path) {
  const std::string file = lower_case(path);
  if (is_in_root(path)) return is_document(file) || file == "model_index.json";
  return has_type(file) && file.find(".fp16.") == std::string::npos && file.find(".non_ema.") == std::string::npos;
}

bool has_file(const std::vector<RepoFile>& files, std::string_view path) {
  return std::ranges::any_of(files, [&](const RepoFile& file) { return file.path == path; });
}

std::vector<RepoFile> folder_files(const std::vector<RepoFile>& files) {
  const bool pipeline = has_file(files, "model_index.json");
  const auto is_weights = [](const RepoFile& file) {
    return is_in_root(file.path) && file.path.starts_with("model") && file.path.ends_with(".safetensors");
  };
  const bool has_model_weights = std::ranges::any_of(files, is_weights);
  std::vector<RepoFile> found;
  std::ranges::copy_if(files, std::back_inserter(found), [&](const RepoFile& file) {
    return pipeline ? belongs_to_pipeline(file.path) : belongs_to_folder(file.path, has_model_weights);
  });
  return found;
}

Error no_such_tag(const RepoName& name, const std::vector<GgufModel>& models) {
  if (models.empty()) return Error(ErrorCode::kBadInput, fmt::format("{} has no GGUF files", name.id));
  const std::string message = name.tag.empty() ? fmt::format("{} has {} models", name.id, models.size())
                                               : fmt::format("{} has no model {}", name.id, quote(name.tag));
  return Error(ErrorCode::kBadInput, message, fmt::format("give one of these after a colon: {}", known_tags(models)));
}

Selection select_gguf(const std::vector<RepoFile>& files, const RepoName& name, const std::vector<GgufModel>& models) {
  const std::vector<GgufModel> tagged = name.tag.empty() ? models : models_of_tag(models, name.tag);
  const GgufModel* model = name.tag.empty() || tagged.size() == 1 ? default_model(tagged) : nullptr;
  if (model == nullptr) throw no_such_tag(name, tagged.empty() ? models : tagged);
  if (!model->is_complete) throw bad_input("{}: {} has only some of its parts", name.id, model->name);
  return {files_of(files, model->files), model->files.front(), tag_of(*model, models)};
}

// Files in the root of a repository without a configuration; each may be a model.
std::vector<std::string> single_files(const std::vector<RepoFile>& files) {
  std::vector<std::string> found;
  for (const RepoFile& file : files) {
    if (is_in_root(file.path) && file.path.ends_with(".safetensors")) found.push_back(file.path);
  }
  return found;
}

Selection select_single(const std::vector<RepoFile>& files, const RepoName& name,
                        const std::vector<std::string>& singles) {
  if (singles.size() > 1) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has {} safetensors files and no config.json or model_index.json", name.id, singles.size()),
        fmt::format("--include NAME chooses one: {}", fmt::join(singles, ", ")));
  }
  Selection selection{.files = {}, .model = singles.front(), .tag = ""};
  std::ranges::copy_if(files, std::back_inserter(selection.files), [&](const RepoFile& file) {
    return file.path == selection.model || (is_in_root(file.path) && is_document(lower_case(file.path)));
  });
  return selection;
}

Selection select_by_patterns(const std::vector<RepoFile>& files, const RepoName& name,
                             const std::vector<std::string>& include, const std::vector<std::string>& exclude) {
  if (!name.tag.empty())
    throw bad_input("{} names a model already: give it without --include and --exclude", name.text());
  Selection selection;
  std::ranges::copy_if(files, std::back_inserter(selection.files),
                       [&](const RepoFile& file) { return is_selected(file.path, include, exclude); });
  if (selection.files.empty())
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no file that matches {}", name.id, fmt::join(include, ", ")),
                "patterns are the shell's, such as '*.safetensors'");
  const auto models = gguf_models(paths_of(selection.files));
  if (models.size() == 1 && models.front().is_complete) {
    selection.model = models.front().files.front();
    selection.tag = tag_of(models.front(), gguf_models(paths_of(files)));
  } else if (auto single = single_file_of(paths_of(selection.files)); single && models.empty()) {
    selection.model = *single;
  }
  return selection;
}

}  // namespace

std::optional<std::string> single_file_of(const std::vector<std::string>& paths) {
  std::optional<std::string> found;
  for (const std::string& path : paths) {
    if (path == "config.json" || path == "model_index.json") return std::nullopt;
    if (!path.ends_with(".safetensors")) continue;
    if (found) return std::nullopt;
    found = path;
  }
  return found;
}

bool is_selected(const std::string& path, const std::vector<std::string>& include,
                 const std::vector<std::string>& exclude) {
  return (include.empty() || matches(include, path)) && !matches(exclude, path);
}

Selection select_files(const std::vector<RepoFile>& files, const RepoName& name,
                       const std::vector<std::string>& include, const std::vector<std::string>& exclude) {
  if (!include.empty() || !exclude.empty()) return select_by_patterns(files, name, include, exclude);
  const std::vector<GgufModel> models = gguf_models(paths_of(files));
  if (!name.tag.empty()) return select_gguf(files, name, models);
  const bool has_weights = std::ranges::any_of(
      files, [](const RepoFile& file) { return is_in_root(file.path) && file.path.ends_with(".safetensors"); });
  if (has_file(files, "model_index.json") || (has_file(files, "config.json") && has_weights))
    return {folder_files(files), "", ""};
  if (!models.empty()) return select_gguf(files, name, models);
  if (const std::vector<std::string> singles = single_files(files); !singles.empty())
    return select_single(files, name, singles);
  throw Error(ErrorCode::kBadInput, fmt::format("{} has neither GGUF files nor safetensors", name.id),
              "--include '*' downloads all of its files");
}

}  // namespace gabbro::hub
