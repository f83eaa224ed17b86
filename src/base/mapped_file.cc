#include "src/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/link_target.h"
#include "src/base/round_up.h"

namespace gabbro {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() {
    const int result = fd_ >= 0 ? ::close(fd_) : 0;
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

// A new file next to `target`, which is removed again unless its name is cleared.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& target)
      : name(target + ".XXXXXX"), file(::mkostemp(name.data(), O_CLOEXEC)) {}
  ~TemporaryFile() {
    if (!name.empty()) ::unlink(name.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string name;
  Descriptor file;
};

// Opens a regular file for reading and tells its size and the time of its last write.
int open_regular(const std::string& path, FileStamp* stamp) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not make us wait
  if (fd < 0) throw bad_input("{}: {}", path, std::strerror(errno));
  struct stat info = {};
  const bool ok = ::fstat(fd, &info) == 0;
  if (!ok || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw bad_input("{}: {}", path, ok && S_ISDIR(info.st_mode) ? "is a folder, not a file" : "is not a regular file");
  }
  *stamp = {.size = info.st_size, .seconds = info.st_mtim.tv_sec, .nanoseconds = info.st_mtim.tv_nsec};
  return fd;
}

[[noreturn]] void refuse_changed(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kFailed, fmt::format("{}: {}", path, what),
              "what runs keeps a file that is replaced by a rename (mv), not one that is written to in place");
}

// Throws where a file is no longer what it was.
void require_stamp(const std::string& path, int fd, const FileStamp& before) {
  FileStamp now;
  if (!read_stamp(fd, &now)) throw failed("{}: {}", path, std::strerror(errno));
  if (now.size != before.size) {
    refuse_changed(path,
                   fmt::format("the file had {} bytes when it was loaded, and has {} now", before.size, now.size));
  }
  if (now != before) refuse_changed(path, "the file was written to since it was loaded");
}

// False, with errno, where not all of it could be written.
bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EFAULT) {
      if (const std::string source = mapped_file_at(bytes.data()); !source.empty())
        throw failed("{}: the file was cut while it was copied", source);
    }
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return true;
}

// A pipe or a device cannot be replaced by a file.
void write_in_place(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool written = file.get() >= 0 && std::ranges::all_of(pieces, [&](std::span<const std::byte> piece) {
                         return write_all(file.get(), piece);
                       });
  if (!written || file.close() != 0) throw failed("{}: cannot write: {}", path, std::strerror(errno));
}

constexpr size_t kPage = 4096;

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  descriptor_ = open_regular(path, &stamp_);
  size_ = static_cast<size_t>(stamp_.size);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (size_ == 0 || data_ == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor_);
    if (size_ == 0) throw bad_input("{}: the file is empty", path);
    throw failed("{}: cannot map {} bytes: {}", path, size_, std::strerror(reason));
  }
  guard_.emplace(FaultGuard::Range{
      .begin = data_, .size = size_, .name = path_.c_str(), .descriptor = descriptor_, .stamp = stamp_});
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (data_ != nullptr) ::munmap(data_, size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::require_unchanged() const {
  if (descriptor_ < 0) return;
  require_stamp(path_, descriptor_, stamp_);
  if (guard_->had_fault()) throw failed("{}: the file cannot be read: Input/output error", path_);
}

void MappedFile::detach(size_t bytes) const {
  if (descriptor_ < 0) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  constexpr size_t kMost = size_t{256} << 20;  // the largest headers have some 30 MB
  bytes = std::min(bytes, size_);
  if (bytes > kMost) return require_unchanged();
  const size_t whole = round_up(bytes, page);
  void* const copy = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) throw failed("{}: cannot copy {} bytes: {}", path_, whole, std::strerror(errno));
  std::memcpy(copy, data_, std::min(whole, size_));
  ::mprotect(copy, whole, PROT_READ);
  if (::mremap(copy, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    const int reason = errno;
    ::munmap(copy, whole);
    throw failed("{}: cannot copy {} bytes: {}", path_, whole, std::strerror(reason));
  }
  require_unchanged();
}

void MappedFile::will_need(size_t offset, size_t size) const {
  const size_t start = offset / kPage * kPage;
  ::madvise(static_cast<std::byte*>(data_) + start, size + (offset - start), MADV_WILLNEED);
}

void MappedFile::release(size_t offset, size_t size) const {
  const size_t start = round_up(offset, kPage);  // whole pages only: neighbors share the edges
  const size_t end = (offset + size) / kPage * kPage;
  if (end > start) ::madvise(static_cast<std::byte*>(data_) + start, end - start, MADV_DONTNEED);
}

void FilesInUse::require_unchanged() const {
  for (const auto& file : files_) {
    if (const std::shared_ptr<const MappedFile> held = file.lock()) held->require_unchanged();
  }
}

std::string read_file(const std::string& path, size_t limit) {
  FileStamp stamp;
  const Descriptor file(open_regular(path, &stamp));
  const auto size = static_cast<size_t>(stamp.size);
  if (size > limit) throw bad_input("{}: {} bytes are more than the {} that are read here", path, size, limit);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failed("{}: {}", path, std::strerror(errno));
    if (got == 0) break;  // files of the kernel may be shorter than their size
    done += static_cast<size_t>(got);
  }
  require_stamp(path, file.get(), stamp);
  text.resize(done);
  return text;
}

std::string link_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  std::filesystem::path target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) return target;
    target = target.parent_path() / next;
  }
  throw failed("{}: {}", path, std::strerror(ELOOP));
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, std::span(&bytes, 1));
}

void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) throw failed("{}: is a folder, not a file", path);
  if (exists && !S_ISREG(info.st_mode)) return write_in_place(path, pieces);
  const std::string target = link_target(path);
  TemporaryFile temporary(target);
  Descriptor& file = temporary.file;
  if (file.get() < 0) throw failed("{}: cannot write to its folder: {}", path, std::strerror(errno));
  const bool written = std::all_of(pieces.begin(), pieces.end(),
                                   [&](std::span<const std::byte> piece) { return write_all(file.get(), piece); });
  if (!written || ::fchmod(file.get(), 0644) != 0 || ::fsync(file.get()) != 0 || file.close() != 0 ||
      ::rename(temporary.name.c_str(), target.c_str()) != 0)
    throw failed("{}: cannot write: {}", path, std::strerror(errno));
  temporary.name.clear();
}

}  // namespace gabbro
