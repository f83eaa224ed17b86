#include "src/base/resumable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "src/base/error.h"
#include "src/base/link_target.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

uint64_t free_bytes(const std::string& path) {
  struct statvfs info = {};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return UINT64_MAX;  // unknown
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// Fails with EEXIST if there is a file at `to`. File systems without that flag get a check before.
int rename_to_free_name(const char* from, const char* to) {
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  struct stat info = {};
  if (::lstat(to, &info) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from, to);
}

}  // namespace

ResumableFile::ResumableFile(const std::string& path, const std::string& recipe, uint64_t bytes)
    : path_(path),
      target_(link_target(path)),
      partial_(target_ + ".partial"),
      list_(partial_ + ".parts"),
      bytes_(bytes) {
  require_room();
  try {
    lock_list();
    open_data();
    struct stat info = {};
    const bool sized = ::fstat(data_, &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes;
    if (!sized || !read_parts(recipe)) start_over(recipe);
    if (::lseek(names_, 0, SEEK_END) < 0) fail("cannot write");
  } catch (...) {
    close();
    throw;
  }
}

// The room of an earlier attempt's file counts as free.
void ResumableFile::require_room() const {
  struct stat info = {};
  const uint64_t there = ::stat(partial_.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
  const uint64_t needed = bytes_ > there ? bytes_ - there : 0, room = free_bytes(target_);
  if (room < needed) throw failed("{}: needs {} bytes, its disk has {} free", path_, needed, room);
}

// The list has the lock: it is there from the beginning to the renaming, and a new writer gets a new one.
void ResumableFile::lock_list() {
  while (true) {
    names_ = ::open(list_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (names_ < 0) fail("cannot write to its folder");
    if (::flock(names_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw Error(ErrorCode::kBadInput, fmt::format("{}: another process is writing it", path_),
                  "wait for its end, or choose another name for the new file");
    struct stat locked = {}, named = {};
    if (::fstat(names_, &locked) == 0 && ::lstat(list_.c_str(), &named) == 0 && is_same_file(locked, named)) return;
    ::close(std::exchange(names_, -1));  // its writer has finished between the two calls
  }
}

// A list begins with a recipe before its partial file is made: one without that is somebody else's.
void ResumableFile::open_data() {
  struct stat list = {}, info = {};
  const bool begun = ::fstat(names_, &list) == 0 && list.st_size > 0;
  const bool there = ::lstat(partial_.c_str(), &info) == 0;
  if (there && (!begun || !S_ISREG(info.st_mode))) {
    if (!begun) ::unlink(list_.c_str());
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is in the way, and was not begun by a conversion", partial_),
                "remove it, or choose another name for the new file");
  }
  if (!begun && ::write(names_, "-", 1) != 1) fail("cannot write");  // of no recipe
  data_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (data_ < 0) fail("cannot write to its folder");
}

// The list is never empty meanwhile.
void ResumableFile::start_over(const std::string& recipe) {
  parts_.clear();
  found_ = 0;
  if (::ftruncate(names_, 1) != 0 || ::ftruncate(data_, 0) != 0 || ::ftruncate(data_, static_cast<off_t>(bytes_)) != 0)
    fail("cannot reserve its size");
  const std::string line = recipe + "\n";
  if (::pwrite(names_, line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) fail("cannot write");
}

ResumableFile::~ResumableFile() {
  if (!unsynced_.empty()) static_cast<void>(note_parts(unsynced_));  // else these parts are written again
  close();
}

void ResumableFile::close() {
  if (data_ >= 0) ::close(data_);
  if (names_ >= 0) ::close(names_);
}

void ResumableFile::fail(const char* what) const { throw failed("{}: {}: {}", path_, what, std::strerror(errno)); }

bool ResumableFile::read_parts(const std::string& recipe) {
  std::string text;
  try {
    text = read_file(list_);
  } catch (const Error&) {
    return false;
  }
  const size_t complete = text.rfind('\n');  // the last line may have been cut off
  if (complete == text.npos) return false;
  std::istringstream lines(text.substr(0, complete));
  std::string line;
  if (!std::getline(lines, line) || line != recipe) return false;
  while (std::getline(lines, line)) {
    if (const size_t space = line.find(' '); space != line.npos) parts_[line.substr(0, space)] = line.substr(space + 1);
  }
  found_ = parts_.size();
  return ::ftruncate(names_, static_cast<off_t>(complete + 1)) == 0;
}

std::optional<std::string> ResumableFile::digest_of(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(part);
  return found != parts_.end() ? std::optional(found->second) : std::nullopt;
}

void ResumableFile::drop(const std::string& part) {
  const std::lock_guard lock(mutex_);
  found_ -= parts_.erase(part);
}

void ResumableFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(data_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot write");
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void ResumableFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = ::pread(data_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot read");
    offset += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

// One sync for all parts of a second: a file has hundreds of them.
void ResumableFile::complete(const std::string& part, const std::string& digest) {
  std::string names;
  {
    const std::lock_guard lock(mutex_);
    parts_[part] = digest;
    unsynced_ += part + " " + digest + "\n";
    const auto now = std::chrono::steady_clock::now();
    if (now - synced_ < std::chrono::seconds(1)) return;
    synced_ = now;
    names.swap(unsynced_);
  }
  if (!note_parts(names)) fail("cannot write");
}

bool ResumableFile::note_parts(const std::string& names) {
  return ::fdatasync(data_) == 0 && ::write(names_, names.data(), names.size()) == static_cast<ssize_t>(names.size());
}

void ResumableFile::sync() {
  if (::fsync(data_) != 0) fail("cannot write");
}

void ResumableFile::finish(bool replaces) {
  sync();
  const int renamed =
      replaces ? ::rename(partial_.c_str(), target_.c_str()) : rename_to_free_name(partial_.c_str(), target_.c_str());
  if (renamed != 0 && errno == EEXIST) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is there by now, written by another program", path_),
                "replace it with --force");
  }
  if (renamed != 0) fail("cannot be named");
  ::unlink(list_.c_str());
  unsynced_.clear();
}

void ResumableFile::discard() {
  ::unlink(partial_.c_str());
  ::unlink(list_.c_str());
  unsynced_.clear();
}

}  // namespace gabbro
