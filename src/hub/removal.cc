#include "src/hub/removal.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/gguf/gguf_split.h"
#include "src/hub/model_folders.h"
#include "src/hub/repo_cache.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

// Bytes that a file has on the disk: for a file with holes fewer than its size.
uint64_t bytes_on_disk(const struct stat& state) {
  constexpr uint64_t kBlock = 512, kSmall = 4096;  // of stat(2); small files may be stored without blocks
  const auto size = static_cast<uint64_t>(state.st_size), blocks = static_cast<uint64_t>(state.st_blocks) * kBlock;
  return size > kSmall ? std::min(size, blocks) : size;
}

// Calls visit(path, its lstat) for a file, or all that is in a folder, and the folder after that; links are not
// followed.
template <class Visit>
void walk(const std::string& path, const Visit& visit) {
  struct stat state = {};
  if (lstat(path.c_str(), &state) != 0) return;
  std::error_code error;
  if (S_ISDIR(state.st_mode)) {
    std::vector<std::string> entries;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
      entries.push_back(entry->path());
    for (const std::string& entry : entries) walk(entry, visit);
  }
  visit(path, state);
}

// The bytes that the removal frees: each file once, and none that another name outside of it keeps.
uint64_t bytes_freed(const Removal& removal) {
  struct Links {
    uint64_t removed = 0, all = 0, bytes = 0;
  };
  std::map<std::pair<uint64_t, uint64_t>, Links> files;
  const auto count = [&](const std::string&, const struct stat& state) {
    if (!S_ISREG(state.st_mode)) return;
    Links& links = files[{static_cast<uint64_t>(state.st_dev), static_cast<uint64_t>(state.st_ino)}];
    links = {links.removed + 1, static_cast<uint64_t>(state.st_nlink), bytes_on_disk(state)};
  };
  for (const std::string& path : removal.files) walk(path, count);
  for (const std::string& path : removal.folders) walk(path, count);
  uint64_t bytes = 0;
  for (const auto& [file, links] : files) bytes += links.removed >= links.all ? links.bytes : 0;
  return bytes;
}

Removal own_model(const CachedModel& model) {
  Removal removal;
  removal.models = {model.name};
  std::error_code ignored;
  if (fs::is_directory(model.path, ignored)) {
    removal.folders = {model.path};
    return removal;
  }
  const auto split = gguf::parse_split_name(model.path);
  for (uint32_t part = 0; part < (split ? split->count : 1); ++part) {
    const std::string path = split ? split->path(part) : model.path;
    if (fs::is_regular_file(path, ignored) || fs::is_symlink(path, ignored)) removal.files.push_back(path);
  }
  return removal;
}

// The model of Gabbro's own folder: the exact name first, then the one in another case.
std::optional<CachedModel> find_own_model(const std::string& name) {
  std::vector<CachedModel> others;
  for (CachedModel& model : own_models()) {
    const std::string file = fs::path(model.path).filename();
    if (model.name == name || file == name) return std::move(model);
    if (lower_case(model.name) == lower_case(name) || lower_case(file) == lower_case(name))
      others.push_back(std::move(model));
  }
  if (others.size() > 1)
    throw bad_input("model {} could be {} or {}: write it in full", quote(name), others[0].name, others[1].name);
  return others.empty() ? std::nullopt : std::optional(std::move(others.front()));
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

// Files of a snapshot, with the links whose blob is missing.
std::vector<std::string> all_files(const RepoCache& cache, const std::string& commit) {
  std::vector<std::string> files = cache.files(commit);
  std::ranges::copy(cache.dangling(commit), std::back_inserter(files));
  return files;
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
  const std::vector<std::string> all = all_files(cache, commit);
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
    if (!hash.empty() && --uses[hash] == 0 && fs::exists(cache.blob(hash), ignored))
      removal.files.push_back(cache.blob(hash));
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
  const auto id = find_cached_repository(folder, name->id);
  if (!id) return {};
  const RepoCache cache(folder, *id);
  if (name->tag.empty() && name->revision.empty()) return whole_repository(cache);
  for (const std::string& commit : cache.commits()) {
    const std::vector<std::string> revisions = cache.revisions_of(commit), files = all_files(cache, commit);
    const std::string wanted = name->revision.empty() ? kDefaultRevision : name->revision;
    if (commit != wanted && std::ranges::find(revisions, wanted) == revisions.end()) continue;
    if (name->tag.empty()) return files_of_snapshot(cache, commit, {*id, name->revision, ""}, files);
    const std::vector<GgufModel> models = gguf_models(files);
    const std::vector<GgufModel> found = models_of_tag(models, name->tag);
    if (found.size() == 1)
      return files_of_snapshot(cache, commit, {*id, name->revision, tag_of(found.front(), models)},
                               found.front().files);
  }
  return {};
}

[[noreturn]] void refuse(const std::string& name) {
  for (const CachedModel& model : list_models()) {
    if (model.source == ModelSource::kLmStudio && lower_case(model.name) == lower_case(name))
      throw Error(ErrorCode::kBadInput, fmt::format("{} is in LM Studio's folder", model.name), "remove it there");
  }
  if (const auto model = find_ollama_model(name)) {
    throw Error(ErrorCode::kBadInput, fmt::format("{} is in Ollama's folder", model->entry.name),
                "ollama rm " + model->entry.name);
  }
  throw Error(ErrorCode::kBadInput, fmt::format("no model {}", quote(name)),
              "rm takes the names that gabbro list shows");
}

}  // namespace

Removal plan_removal(const std::string& name) {
  const auto own = find_own_model(name);
  std::optional<Removal> removal = own ? own_model(*own) : hub_removal(name);
  if (!removal) refuse(name);
  removal->bytes = bytes_freed(*removal);
  return *removal;
}

uint64_t remove(const Removal& removal) {
  std::vector<FileLock> held;
  for (const std::string& path : removal.locks) {
    auto lock = FileLock::try_lock(path);
    if (!lock) throw failed("{} is being downloaded", removal.models.front());
    held.push_back(std::move(*lock));
  }
  uint64_t freed = 0;
  const auto unlink = [&](const std::string& path, const struct stat& state) {
    struct stat now = state;  // earlier names of the same file may be gone
    if (lstat(path.c_str(), &now) == 0 && S_ISREG(now.st_mode) && now.st_nlink == 1) freed += bytes_on_disk(now);
    std::error_code error;
    fs::remove(path, error);
    if (error) throw failed("{}: cannot be removed: {}", path, error.message());
  };
  for (const std::string& path : removal.files) walk(path, unlink);
  for (const std::string& path : removal.folders) walk(path, unlink);
  std::error_code error;
  for (const std::string& path : removal.empty) fs::remove(path, error);  // where something is left in it: it stays
  return freed;
}

}  // namespace gabbro::hub
