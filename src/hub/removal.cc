#include "src/hub/removal.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/gguf_split.h"
#include "src/hub/model_folders.h"
#include "src/hub/repo_cache.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

// Sizes of the files that are really in the folder: links count nothing.
uint64_t bytes_below(const std::string& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_symlink(ignored) && entry->is_regular_file(ignored)) sum += entry->file_size(ignored);
  }
  return sum;
}

Removal own_model(const CachedModel& model) {
  Removal removal;
  removal.models = {model.name};
  removal.bytes = model.bytes;
  std::error_code ignored;
  if (fs::is_directory(model.path, ignored)) {
    removal.folders = {model.path};
    return removal;
  }
  const auto split = gguf::parse_split_name(model.path);
  for (uint32_t part = 0; part < (split ? split->count : 1); ++part) {
    const std::string path = split ? split->path(part) : model.path;
    if (fs::is_regular_file(path, ignored)) removal.files.push_back(path);
  }
  return removal;
}

std::vector<std::string> locks_of(const RepoCache& cache) {
  std::vector<std::string> locks;
  std::error_code error;
  for (fs::directory_iterator entry(cache.lock_folder(), error), end; !error && entry != end; entry.increment(error))
    locks.push_back(entry->path());
  return locks;
}

Removal whole_repository(const RepoCache& cache) {
  Removal removal;
  for (const CachedModel& model : hub_models()) {
    const auto name = parse_repo_name(model.name);
    if (name && name->id == cache.id()) removal.models.push_back(model.name);
  }
  if (removal.models.empty()) removal.models = {cache.id()};
  removal.folders = {cache.folder(), cache.lock_folder()};
  removal.locks = locks_of(cache);
  removal.bytes = bytes_below(cache.folder());
  return removal;
}

// The blob that a link of a snapshot points to, where it is one of this repository.
std::string blob_of(const RepoCache& cache, const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (error) return "";
  const fs::path blob = (fs::path(link).parent_path() / target).lexically_normal();
  return blob.parent_path() == fs::path(cache.folder() + "/blobs").lexically_normal() ? blob.filename() : "";
}

// For each blob, the number of links to it in all snapshots.
std::map<std::string, size_t> uses_of_blobs(const RepoCache& cache) {
  std::map<std::string, size_t> uses;
  for (const std::string& commit : cache.commits()) {
    for (const std::string& file : cache.files(commit)) ++uses[blob_of(cache, cache.snapshot(commit) + "/" + file)];
  }
  return uses;
}

// Files of a snapshot, and their blobs that no other file needs.
Removal files_of_snapshot(const RepoCache& cache, const std::string& commit, const RepoName& name,
                          const std::vector<std::string>& files) {
  const std::vector<std::string> all = cache.files(commit);
  if (cache.commits().size() == 1 && all.size() == files.size()) return whole_repository(cache);
  Removal removal;
  removal.models = {name.text()};
  removal.locks = locks_of(cache);
  std::map<std::string, size_t> uses = uses_of_blobs(cache);
  for (const std::string& file : files) {
    const std::string link = cache.snapshot(commit) + "/" + file;
    removal.files.push_back(link);
    for (fs::path folder = fs::path(link).parent_path(); folder != fs::path(cache.folder()) / "snapshots";
         folder = folder.parent_path())
      removal.empty.push_back(folder);
    const std::string hash = blob_of(cache, link);
    std::error_code ignored;
    if (hash.empty()) {
      removal.bytes += fs::file_size(link, ignored);
    } else if (--uses[hash] == 0) {
      removal.files.push_back(cache.blob(hash));
      removal.bytes += fs::file_size(cache.blob(hash), ignored);
    }
  }
  // A reference to a snapshot that is gone would be an error for huggingface_hub.
  if (all.size() == files.size()) {
    for (const std::string& revision : cache.revisions_of(commit))
      removal.files.push_back(cache.folder() + "/refs/" + revision);
  }
  return removal;
}

std::optional<Removal> hub_removal(const std::string& text) {
  const auto short_name = find_short_name(text);
  const auto name = short_name ? short_name : parse_repo_name(text);
  if (!name) return {};
  const std::string folder = cache_folder();
  for (const std::string& id : cached_repositories(folder)) {
    if (lower_case(id) != lower_case(name->id)) continue;
    const RepoCache cache(folder, id);
    if (name->tag.empty() && name->revision.empty()) return whole_repository(cache);
    for (const std::string& commit : cache.commits()) {
      const std::vector<std::string> revisions = cache.revisions_of(commit);
      const std::string wanted = name->revision.empty() ? kDefaultRevision : name->revision;
      if (commit != wanted && std::ranges::find(revisions, wanted) == revisions.end()) continue;
      if (name->tag.empty()) return files_of_snapshot(cache, commit, {id, name->revision, ""}, cache.files(commit));
      const std::vector<GgufModel> models = gguf_models(cache.files(commit));
      const std::vector<GgufModel> found = models_of_tag(models, name->tag);
      if (found.size() == 1)
        return files_of_snapshot(cache, commit, {id, name->revision, tag_of(found.front(), models)},
                                 found.front().files);
    }
  }
  return {};
}

}  // namespace

Removal plan_removal(const std::string& name) {
  for (const CachedModel& model : own_models()) {
    if (model.name == name || fs::path(model.path).filename() == name) return own_model(model);
  }
  if (auto removal = hub_removal(name)) return *removal;
  for (const CachedModel& model : list_models()) {
    if (lower_case(model.name) != lower_case(name) && lower_case(model.name) != lower_case(name) + ":latest") continue;
    if (model.source == ModelSource::kOllama)
      throw Error(ErrorCode::kBadInput, fmt::format("{} is in Ollama's folder", model.name), "ollama rm " + model.name);
    if (model.source == ModelSource::kLmStudio)
      throw Error(ErrorCode::kBadInput, fmt::format("{} is in LM Studio's folder", model.name), "remove it there");
  }
  throw Error(ErrorCode::kBadInput, fmt::format("no model {}", gguf::quote(name)),
              "rm takes the names that gabbro list shows");
}

void remove(const Removal& removal) {
  std::vector<FileLock> held;
  for (const std::string& path : removal.locks) {
    auto lock = FileLock::try_lock(path);
    if (!lock) throw failed("{} is being downloaded", removal.models.front());
    held.push_back(std::move(*lock));
  }
  const auto check = [](const std::string& path, const std::error_code& error) {
    if (error) throw failed("{}: cannot be removed: {}", path, error.message());
  };
  std::error_code error;
  for (const std::string& path : removal.files) {
    fs::remove(path, error);
    check(path, error);
  }
  for (const std::string& path : removal.folders) {
    fs::remove_all(path, error);
    check(path, error);
  }
  for (const std::string& path : removal.empty) fs::remove(path, error);  // where something is left in it: it stays
}

}  // namespace gabbro::hub
