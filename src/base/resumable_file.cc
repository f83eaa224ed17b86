#include "src/base/resumable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

uint64_t free_bytes(const std::string& path) {
  struct statvfs info = {};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &info) != 0) return UINT64_MAX;  // unknown
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

uint64_t size_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
}

// Bytes of a file that take room on its disk.
uint64_t allocated_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

}  // namespace

ResumableFile::ResumableFile(const std::string& path, const std::string& recipe, uint64_t bytes)
    : path_(path), partial_(path + ".partial"), list_(partial_ + ".parts"), bytes_(bytes) {
  const bool continued = size_of(partial_) == bytes && read_parts(recipe);
  const uint64_t there = continued ? allocated_of(partial_) : 0, needed = bytes > there ? bytes - there : 0;
  if (const uint64_t room = free_bytes(path); room < needed)
    throw failed("{}: needs {} bytes, its disk has {} free", path, needed, room);
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (continued ? 0 : O_TRUNC);
  data_ = ::open(partial_.c_str(), flags, 0644);
  if (data_ < 0) fail("cannot write to its folder");
  if (!continued && ::ftruncate(data_, static_cast<off_t>(bytes)) != 0) fail("cannot reserve its size");
  names_ =
      ::open(list_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (continued ? 0 : O_TRUNC), 0644);
  if (names_ < 0) fail("cannot write to its folder");
  if (!continued) begin(recipe);
}

ResumableFile::~ResumableFile() {
  if (!unsynced_.empty()) static_cast<void>(note_parts(unsynced_));  // else these parts are written again
  if (data_ >= 0) ::close(data_);
  if (names_ >= 0) ::close(names_);
}

void ResumableFile::fail(const char* what) const { throw failed("{}: {}: {}", path_, what, std::strerror(errno)); }

void ResumableFile::begin(const std::string& recipe) {
  const std::string line = recipe + "\n";
  if (::write(names_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail("cannot write");
}

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
  while (std::getline(lines, line)) parts_.insert(line);
  found_ = parts_.size();
  return true;
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

// One sync for all parts of a second: a file has hundreds of them.
void ResumableFile::complete(const std::string& part) {
  std::string names;
  {
    const std::lock_guard lock(mutex_);
    parts_.insert(part);
    unsynced_ += part + "\n";
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

void ResumableFile::finish() {
  if (::fsync(data_) != 0) fail("cannot write");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot be named");
  ::unlink(list_.c_str());
  unsynced_.clear();
}

}  // namespace gabbro
