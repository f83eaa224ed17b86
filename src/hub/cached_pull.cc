#include "src/hub/cached_pull.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/hub/license.h"
#include "src/hub/model_cache.h"
#include "src/hub/model_folders.h"
#include "src/hub/selection.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

// A file of a snapshot; its hash is the name of the blob that its link leads to.
RepoFile file_of(const std::string& snapshot, const std::string& path) {
  RepoFile file{.path = path};
  std::error_code error;
  const uint64_t size = fs::file_size(snapshot + "/" + path, error);
  file.size = error ? 0 : size;
  const fs::path target = fs::read_symlink(snapshot + "/" + path, error);
  if (!error && (is_commit(target.filename().string()) || is_sha256(target.filename().string())))
    file.blob = target.filename();
  file.lfs = is_sha256(file.blob);
  return file;
}

void add_files(PullResult& result, const std::string& snapshot, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    result.files.push_back(file_of(snapshot, path));
    result.bytes += result.files.back().size;
  }
}

}  // namespace

std::optional<PullResult> pull_from_cache(const Settings& settings, const PullOptions& options) {
  const RepoName& name = options.name;
  const RepoCache cache(settings.cache, name.id);
  const auto commit = cache.commit_of(name.revision.empty() ? kDefaultRevision : name.revision);
  const std::vector<std::string> commits = cache.commits();
  const bool has_patterns = !options.include.empty() || !options.exclude.empty();
  PullResult result;
  result.model = name.text();
  if (!commit || std::ranges::find(commits, *commit) == commits.end()) {
    const auto other = has_patterns ? std::nullopt : find_model(name.text());  // of LM Studio, say
    if (!other) return {};
    result.path = *other;
    return result;
  }
  result.commit = *commit;
  const std::string snapshot = cache.snapshot(*commit);
  std::vector<std::string> files = cache.files(*commit);
  if (has_patterns) {
    std::erase_if(files, [&](const std::string& path) { return !is_selected(path, options.include, options.exclude); });
    if (files.empty()) return {};
    const auto single = single_file_of(files);
    result.path = single ? snapshot + "/" + *single : snapshot;
  } else {
    const RepoFolder folder = snapshot_folder(cache, *commit);
    auto path = find_in(folder, name);
    // A configuration without weights is the start of a download.
    const bool begun = std::ranges::any_of(
        files, [](const std::string& file) { return file == "config.json" || file == "model_index.json"; });
    const bool is_other = name.tag.empty() && folder.problem.empty() && folder.broken.empty() && !files.empty();
    if (!path && is_other && !begun) {  // a single file, or a tokenizer alone, say
      const auto single = single_file_of(files);
      path = single ? snapshot + "/" + *single : snapshot;
    }
    if (!path) return {};
    result.path = *path;
    const auto is_it = [&](const GgufModel& model) { return snapshot + "/" + model.files.front() == *path; };
    const auto model = std::ranges::find_if(folder.ggufs, is_it);
    if (model != folder.ggufs.end()) {
      files = model->files;
      result.model = RepoName{name.id, name.revision, tag_of(*model, folder.ggufs)}.text();
    }
  }
  add_files(result, snapshot, files);
  result.license = license_of(snapshot, result.files);
  return result;
}

}  // namespace gabbro::hub
