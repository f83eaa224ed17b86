#include "src/hub/model_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/repo_cache.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

uint64_t bytes_of(const std::string& folder, const std::vector<std::string>& files) {
  uint64_t sum = 0;
  for (const std::string& file : files) sum += bytes_of(fmt::format("{}/{}", folder, file));
  return sum;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) names.push_back(entry->path().filename());
  }
  return names;
}

// LM Studio's folders of repositories.
template <class Visit>
void for_each_lm_studio_folder(const Visit& visit) {
  for (const std::string& root : lm_studio_folders()) {
    for (const std::string& owner : folders_in(root)) {
      for (const std::string& name : folders_in(fmt::format("{}/{}", root, owner))) {
        const std::string folder = fmt::format("{}/{}/{}", root, owner, name);
        visit(repo_folder({fmt::format("{}/{}", owner, name), "", ""}, folder, files_in(folder)));
      }
    }
  }
}

}  // namespace

RepoFolder snapshot_folder(const RepoCache& cache, const std::string& commit) {
  const std::vector<std::string> revisions = cache.revisions_of(commit);
  const bool is_default = std::ranges::find(revisions, kDefaultRevision) != revisions.end();
  // A commit without a reference is its own revision.
  const std::string revision = is_default ? "" : revisions.empty() ? commit : revisions.front();
  return repo_folder({cache.id(), revision, ""}, cache.snapshot(commit), cache.files(commit), cache.dangling(commit));
}

RepoFolder repo_folder(const RepoName& name, const std::string& folder, const std::vector<std::string>& files,
                       const std::vector<std::string>& dangling) {
  std::vector<std::string> all = files;
  all.insert(all.end(), dangling.begin(), dangling.end());
  const auto has = [&](std::string_view file) { return std::ranges::find(all, file) != all.end(); };
  const auto is_weights = [](const std::string& file) {
    return file.ends_with(".safetensors") || file.ends_with(kWeightIndexSuffix);
  };
  RepoFolder found{.name = name, .folder = folder};
  if ((has("config.json") || has("model_index.json")) && std::ranges::any_of(all, is_weights)) {
    found.problem = problem_of_folder(folder, files, dangling);
    found.is_model = found.problem.empty();
  }
  for (GgufModel& model : gguf_models(all)) {
    const auto lost = std::ranges::find_first_of(model.files, dangling);
    if (lost != model.files.end()) {
      const std::string problem = *lost + " is missing";
      found.broken.push_back({std::move(model), problem});
    } else if (!model.is_complete) {
      found.broken.push_back({std::move(model), "some of its parts are missing"});
    } else {
      found.ggufs.push_back(std::move(model));
    }
  }
  return found;
}

std::vector<CachedModel> models_in(const RepoFolder& folder, ModelSource source) {
  std::vector<CachedModel> models;
  if (folder.is_model || !folder.problem.empty()) {
    uint64_t bytes = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder.folder, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_regular_file(ignored)) bytes += bytes_of(entry->path());
    }
    models.push_back({folder.name.text(), folder.folder, bytes, source, folder.problem});
  }
  std::vector<GgufModel> all = folder.ggufs;
  for (const RepoFolder::BrokenGguf& broken : folder.broken) all.push_back(broken.model);
  const auto add = [&](const GgufModel& model, const std::string& problem) {
    const RepoName name{folder.name.id, folder.name.revision, tag_of(model, all)};
    models.push_back({name.text(), folder.folder + "/" + model.files.front(), bytes_of(folder.folder, model.files),
                      source, problem});
  };
  for (const GgufModel& model : folder.ggufs) add(model, "");
  for (const RepoFolder::BrokenGguf& broken : folder.broken) add(broken.model, broken.problem);
  return models;
}

std::optional<std::string> find_in(const RepoFolder& folder, const RepoName& name) {
  if (name.tag.empty() && folder.is_model) return folder.folder;
  const std::vector<GgufModel> found = name.tag.empty() ? folder.ggufs : models_of_tag(folder.ggufs, name.tag);
  if (found.empty()) return {};
  const GgufModel* model = name.tag.empty() || found.size() == 1 ? default_model(found) : nullptr;
  if (model == nullptr)
    throw Error(ErrorCode::kBadInput, fmt::format("{} could be one of {} models", name.text(), found.size()),
                fmt::format("give one of these after a colon: {}", known_tags(found)));
  return folder.folder + "/" + model->files.front();
}

std::vector<CachedModel> hub_models() {
  std::vector<CachedModel> models;
  const std::string folder = cache_folder();
  for (const std::string& id : cached_repositories(folder)) {
    const RepoCache cache(folder, id);
    for (const std::string& commit : cache.commits())
      std::ranges::copy(models_in(snapshot_folder(cache, commit), ModelSource::kHub), std::back_inserter(models));
    for (const std::string& revision : cache.lost_revisions()) {
      const RepoName name{id, revision == kDefaultRevision ? "" : revision, ""};
      models.push_back(
          {name.text(), cache.folder(), 0, ModelSource::kHub, fmt::format("the snapshot of {} is missing", revision)});
    }
  }
  return models;
}

namespace {

// The snapshot that a name means in the Hub's cache.
std::optional<RepoFolder> find_snapshot(const RepoName& name) {
  const std::string folder = cache_folder();
  const auto id = find_cached_repository(folder, name.id);
  if (!id) return {};
  const RepoCache cache(folder, *id);
  const std::vector<std::string> commits = cache.commits();
  auto commit = cache.commit_of(name.revision.empty() ? kDefaultRevision : name.revision);
  if (!commit && name.revision.empty() && commits.size() == 1) commit = commits.front();
  if (!commit || std::ranges::find(commits, *commit) == commits.end()) return {};
  return snapshot_folder(cache, *commit);
}

}  // namespace

std::optional<std::string> find_hub_model(const RepoName& name) {
  const auto snapshot = find_snapshot(name);
  return snapshot ? find_in(*snapshot, name) : std::nullopt;
}

namespace {

// A repository whose default snapshot is missing may have others.
void refuse_other_snapshots(const RepoName& name) {
  const std::string folder = cache_folder();
  const auto id = find_cached_repository(folder, name.id);
  if (!id || !name.revision.empty()) return;
  const RepoCache cache(folder, *id);
  if (cache.commit_of(std::string(kDefaultRevision))) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("no model {}: the snapshot of {} is missing", name.text(), kDefaultRevision),
                fmt::format("gabbro pull {} downloads it", name.text()));
  }
  const std::vector<std::string> commits = cache.commits();
  if (commits.size() < 2) return;
  throw bad_input("model {} could be {}@{} or {}@{}: write it in full", quote(name.text()), *id, commits[0], *id,
                  commits[1]);
}

}  // namespace

void refuse_broken_hub_model(const RepoName& name) {
  const auto snapshot = find_snapshot(name);
  if (!snapshot) return refuse_other_snapshots(name);
  std::string problem = name.tag.empty() ? snapshot->problem : "";
  for (const RepoFolder::BrokenGguf& broken : snapshot->broken) {
    const bool is_it = name.tag.empty() || !models_of_tag({broken.model}, name.tag).empty();
    if (is_it && problem.empty()) problem = broken.problem;
  }
  if (problem.empty()) return;
  throw Error(ErrorCode::kBadInput, fmt::format("no model {}: its snapshot is broken: {}", name.text(), problem),
              fmt::format("gabbro pull {} downloads what is missing", name.text()));
}

std::vector<std::string> lm_studio_folders() {
  const std::string home = variable("HOME");
  if (home.empty()) return {};
  std::error_code ignored;
  const std::string pointer = home + "/.lmstudio-home-pointer";
  try {
    if (fs::is_regular_file(pointer, ignored)) return {std::string(trim(read_file(pointer, 4096))) + "/models"};
  } catch (const Error&) {  // of another program: its default places remain
  }
  return {home + "/.lmstudio/models", home + "/.cache/lm-studio/models"};
}

std::vector<CachedModel> lm_studio_models() {
  std::vector<CachedModel> models;
  for_each_lm_studio_folder([&](const RepoFolder& folder) {
    std::ranges::copy(models_in(folder, ModelSource::kLmStudio), std::back_inserter(models));
  });
  return models;
}

std::optional<std::string> find_lm_studio_model(const RepoName& name) {
  if (!name.revision.empty()) return {};
  std::vector<RepoFolder> exact, others;
  for_each_lm_studio_folder([&](const RepoFolder& folder) {
    if (lower_case(folder.name.id) == lower_case(name.id))
      (folder.name.id == name.id ? exact : others).push_back(folder);
  });
  const std::vector<RepoFolder>& found = exact.empty() ? others : exact;
  for (const RepoFolder& folder : found) {
    if (folder.name.id != found.front().name.id)
      throw bad_input("model {} could be {} or {}: write it in full", quote(name.id), found.front().name.id,
                      folder.name.id);
  }
  for (const RepoFolder& folder : found) {
    if (auto path = find_in(folder, name)) return path;
  }
  return {};
}

}  // namespace gabbro::hub
