#include "src/hub/incomplete_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gabbro::hub {
namespace {

constexpr std::string_view kMagic = "gabbro pieces 1\n";

Error cannot(const std::string& path, const char* what) {
  const int number = errno;
  return Error(ErrorCode::kFailed, fmt::format("{}: cannot be {}: {}", path, what, std::strerror(number)),
               number == ENOSPC ? "free some space; the download then goes on where it was" : "");
}

void write_all(int file, const std::string& path, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw cannot(path, "written");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

// False where the file ends before.
bool read_all(int file, const std::string& path, uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t size = pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw cannot(path, "read");
    if (size == 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(size));
    offset += static_cast<uint64_t>(size);
  }
  return true;
}

}  // namespace

IncompleteFile::IncompleteFile(const std::string& path, uint64_t size)
    : path_(path), size_(size), done_((size + kPieceBytes - 1) / kPieceBytes, 0) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) throw cannot(path, "opened");
  struct stat state = {};
  if (fstat(file_, &state) != 0) throw cannot(path, "read");
  try {
    resume(static_cast<uint64_t>(state.st_size));
  } catch (...) {
    close(file_);
    throw;
  }
}

IncompleteFile::~IncompleteFile() { close(file_); }

void IncompleteFile::begin() {
  // The magic comes last: a table is valid where it is there.
  std::ranges::fill(done_, 0);
  first_missing_ = 0;
  if (ftruncate(file_, 0) != 0 ||
      ftruncate(file_, static_cast<off_t>(table_begin() + done_.size() + kMagic.size())) != 0)
    throw cannot(path_, "written");
  write_all(file_, path_, table_begin() + done_.size(), std::as_bytes(std::span(kMagic)));
}

void IncompleteFile::resume(uint64_t file_bytes) {
  if (file_bytes == size_ && size_ > 0) {  // killed in finish(): the hash will tell
    std::ranges::fill(done_, 1);
    return;
  }
  std::string magic(kMagic.size(), '\0');
  const bool valid = file_bytes == table_begin() + done_.size() + kMagic.size() &&
                     read_all(file_, path_, table_begin() + done_.size(), std::as_writable_bytes(std::span(magic))) &&
                     magic == kMagic;
  if (!valid) return begin();
  read_all(file_, path_, table_begin(), std::as_writable_bytes(std::span(done_)));
  for (char& done : done_) done = done == 1 ? 1 : 0;
}

uint64_t IncompleteFile::end_of(size_t piece) const { return std::min(size_, (piece + 1) * kPieceBytes); }

uint64_t IncompleteFile::bytes_done() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (size_t piece = 0; piece < done_.size(); ++piece) sum += done_[piece] ? end_of(piece) - piece * kPieceBytes : 0;
  return sum;
}

uint64_t IncompleteFile::frontier() const {
  const std::lock_guard lock(mutex_);
  while (first_missing_ < done_.size() && done_[first_missing_]) ++first_missing_;
  return std::min(size_, first_missing_ * kPieceBytes);
}

std::vector<ByteRange> IncompleteFile::missing(uint64_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<ByteRange> ranges;
  for (size_t piece = 0; piece < done_.size(); ++piece) {
    if (done_[piece]) continue;
    const uint64_t start = piece * kPieceBytes;
    if (!ranges.empty() && ranges.back().end == start && ranges.back().size() + kPieceBytes <= most) {
      ranges.back().end = end_of(piece);
    } else {
      ranges.push_back({start, end_of(piece)});
    }
  }
  return ranges;
}

void IncompleteFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  write_all(file_, path_, offset, bytes);
}

void IncompleteFile::mark(ByteRange range) {
  const std::lock_guard lock(mutex_);
  for (size_t piece = range.begin / kPieceBytes; piece < done_.size() && end_of(piece) <= range.end; ++piece) {
    if (done_[piece]) continue;
    done_[piece] = 1;
    write_all(file_, path_, table_begin() + piece, std::as_bytes(std::span(&done_[piece], 1)));
  }
}

void IncompleteFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  if (!read_all(file_, path_, offset, bytes)) throw failed("{}: was cut off by another program", path_);
}

void IncompleteFile::forget() {
  const std::lock_guard lock(mutex_);
  begin();
}

void IncompleteFile::finish(const std::string& path) {
  if (ftruncate(file_, static_cast<off_t>(size_)) != 0 || fdatasync(file_) != 0) throw cannot(path_, "written");
  if (rename(path_.c_str(), path.c_str()) != 0) throw cannot(path, "written");
}

}  // namespace gabbro::hub
