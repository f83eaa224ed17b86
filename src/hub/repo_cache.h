// One repository's folder in the cache that huggingface_hub and other programs share:
//   models--OWNER--NAME/blobs/HASH                    the files' bytes
//                       snapshots/COMMIT/PATH         links to them
//                       refs/REVISION                 the commit that a branch or tag was
//   .locks/models--OWNER--NAME/HASH.lock
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gabbro::hub {

class RepoCache {
 public:
  RepoCache(std::string cache, std::string id);

  const std::string& id() const { return id_; }
  std::string folder() const;
  std::string blob(const std::string& hash) const;
  std::string incomplete(const std::string& hash) const;  // huggingface_hub takes no file of this name for its own
  std::string lock(const std::string& hash) const;
  std::string lock_folder() const;
  std::string snapshot(const std::string& commit) const;

  // Creates the folders of a download, and the mark that tells backup programs to leave the cache out. Throws failed().
  void create_folders() const;
  // The commit that refs/ has for a revision; a commit is itself. Empty: none.
  std::optional<std::string> commit_of(const std::string& revision) const;
  // snapshots/COMMIT/PATH as a relative link to the blob; replaces what is there. Throws failed().
  void link(const std::string& commit, const std::string& path, const std::string& hash) const;
  void write_ref(const std::string& revision, const std::string& commit) const;

  std::vector<std::string> commits() const;                                // with a snapshot, sorted
  std::vector<std::string> revisions_of(const std::string& commit) const;  // sorted
  // Paths of a snapshot's files that are there (not those whose blob is missing), sorted.
  std::vector<std::string> files(const std::string& commit) const;
  // Paths of those whose blob is missing, sorted.
  std::vector<std::string> dangling(const std::string& commit) const;
  // Revisions of refs/ whose commit has no snapshot, sorted.
  std::vector<std::string> lost_revisions() const;

 private:
  std::string cache_, id_, name_;
};

// The repositories of models in the cache, sorted.
std::vector<std::string> cached_repositories(const std::string& cache);

// The cached repository that `id` means: the exact name, else the one in another case. Nothing where it is not there.
// Throws bad_input that names two where it could be several.
std::optional<std::string> find_cached_repository(const std::string& cache, const std::string& id);

// Holds a lock file, as Python's filelock does (flock). It stays on the disk.
class FileLock {
 public:
  // Empty where another process has the lock. Throws failed() where the file cannot be made.
  static std::optional<FileLock> try_lock(const std::string& path);
  FileLock(FileLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileLock();

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_;
};

}  // namespace gabbro::hub
