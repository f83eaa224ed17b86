#include "src/hub/repo_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/listing.h"
#include "src/hub/repo_name.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--", kSeparator = "--";

void create_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw failed("{}: cannot be created: {}", folder, error.message());
}

std::string folder_name(const std::string& id) {
  std::string name(kPrefix);
  for (const char c : id) name += c == '/' ? std::string(kSeparator) : std::string(1, c);
  return name;
}

template <class Visit>
void for_each_entry(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error))
    visit(*entry);
}

template <class Visit>
void for_each_file(const fs::path& folder, const Visit& visit) {
  for_each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored)) visit(entry.path());
  });
}

}  // namespace

RepoCache::RepoCache(std::string cache, std::string id)
    : cache_(std::move(cache)), id_(std::move(id)), name_(folder_name(id_)) {}

std::string RepoCache::folder() const { return cache_ + "/" + name_; }
std::string RepoCache::blob(const std::string& hash) const { return folder() + "/blobs/" + hash; }
std::string RepoCache::incomplete(const std::string& hash) const { return blob(hash) + ".gabbro.incomplete"; }
std::string RepoCache::lock_folder() const { return cache_ + "/.locks/" + name_; }
std::string RepoCache::lock(const std::string& hash) const { return lock_folder() + "/" + hash + ".lock"; }
std::string RepoCache::snapshot(const std::string& commit) const { return folder() + "/snapshots/" + commit; }

void RepoCache::create_folders() const {
  create_folder(folder() + "/blobs");
  create_folder(folder() + "/snapshots");
  create_folder(lock_folder());
  const std::string tag = cache_ + "/CACHEDIR.TAG";
  std::error_code ignored;
  if (fs::exists(tag, ignored)) return;
  std::ofstream(tag) << "Signature: 8a477f597d28d172789f06886806bc55\n"  // of the specification at bford.info/cachedir
                        "# This folder is a cache of downloaded models.\n";
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const std::string path = folder() + "/refs/" + revision;
  std::error_code ignored;
  if (!is_revision(revision) || !fs::is_regular_file(path, ignored)) return {};
  try {
    const std::string commit(trim(read_file(path, 100)));
    return is_commit(commit) ? std::optional(commit) : std::nullopt;
  } catch (const Error&) {  // longer than a commit, or not readable
    return {};
  }
}

void RepoCache::link(const std::string& commit, const std::string& path, const std::string& hash) const {
  const std::string name = snapshot(commit) + "/" + path;
  create_folder(fs::path(name).parent_path());
  std::string target = "../../";
  for (const char c : path) target += c == '/' ? "../" : "";
  target += "blobs/" + hash;
  if (::symlink(target.c_str(), name.c_str()) == 0) return;
  std::error_code ignored;
  if (errno == EEXIST && fs::read_symlink(name, ignored) == target) return;
  // Another link or file of that name is replaced in one step.
  const std::string temporary = fmt::format("{}.{}.tmp", name, getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), name.c_str()) != 0) {
    const int number = errno;
    ::unlink(temporary.c_str());
    throw failed("{}: cannot be linked: {}", name, std::strerror(number));
  }
}

void RepoCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) return;
  const std::string path = folder() + "/refs/" + revision;
  create_folder(fs::path(path).parent_path());
  write_file_atomically(path, std::as_bytes(std::span(commit)));
}

std::vector<std::string> RepoCache::commits() const {
  std::vector<std::string> commits;
  std::error_code error;
  for (fs::directory_iterator entry(folder() + "/snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    if (is_folder && is_commit(entry->path().filename().string())) commits.push_back(entry->path().filename());
  }
  std::ranges::sort(commits);
  return commits;
}

std::vector<std::string> RepoCache::revisions_of(const std::string& commit) const {
  std::vector<std::string> revisions;
  const fs::path refs = folder() + "/refs";
  for_each_file(refs, [&](const fs::path& path) {
    const std::string revision = path.lexically_relative(refs);
    if (commit_of(revision) == commit) revisions.push_back(revision);
  });
  std::ranges::sort(revisions);
  return revisions;
}

std::vector<std::string> RepoCache::files(const std::string& commit) const {
  std::vector<std::string> files;
  const fs::path folder = snapshot(commit);
  for_each_file(folder, [&](const fs::path& path) { files.push_back(path.lexically_relative(folder)); });
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> RepoCache::dangling(const std::string& commit) const {
  std::vector<std::string> files;
  const fs::path folder = snapshot(commit);
  for_each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_symlink(ignored) && !entry.exists(ignored)) files.push_back(entry.path().lexically_relative(folder));
  });
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> RepoCache::lost_revisions() const {
  std::vector<std::string> revisions;
  const fs::path refs = folder() + "/refs";
  for_each_file(refs, [&](const fs::path& path) {
    const std::string revision = path.lexically_relative(refs);
    const auto commit = commit_of(revision);
    std::error_code ignored;
    if (commit && !fs::is_directory(snapshot(*commit), ignored)) revisions.push_back(revision);
  });
  std::ranges::sort(revisions);
  return revisions;
}

std::optional<std::string> find_cached_repository(const std::string& cache, const std::string& id) {
  std::vector<std::string> found;
  for (std::string& other : cached_repositories(cache)) {
    if (other == id) return std::move(other);
    if (lower_case(other) == lower_case(id)) found.push_back(std::move(other));
  }
  if (found.size() > 1) throw bad_input("model {} could be {} or {}: write it in full", quote(id), found[0], found[1]);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<std::string> cached_repositories(const std::string& cache) {
  std::vector<std::string> ids;
  std::error_code error;
  if (cache.empty()) return ids;
  for (fs::directory_iterator entry(cache, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kPrefix)) continue;
    std::string id = name.substr(kPrefix.size());
    const size_t separator = id.find(kSeparator);
    if (separator == std::string::npos) continue;  // of the time before owners
    id.replace(separator, kSeparator.size(), "/");
    const auto parsed = parse_repo_name(id);
    if (parsed && parsed->id == id) ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

std::optional<FileLock> FileLock::try_lock(const std::string& path) {
  // A removed lock file (rm, hf cache) may still be locked by its old holder: the file has to be the one of the path.
  while (true) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (file < 0) throw failed("{}: cannot be opened: {}", path, std::strerror(errno));
    FileLock lock(file);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return {};
      if (errno == EINTR) continue;
      throw Error(ErrorCode::kFailed, fmt::format("{}: cannot be locked: {}", path, std::strerror(errno)),
                  "HF_HUB_CACHE can name a folder on a disk with locks");
    }
    struct stat opened = {}, named = {};
    if (fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino) return lock;
  }
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace gabbro::hub
