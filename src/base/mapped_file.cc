#include "src/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
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

// Opens a regular file for reading and tells its size.
int open_regular(const std::string& path, size_t* size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not make us wait
  if (fd < 0) throw bad_input("{}: {}", path, std::strerror(errno));
  struct stat info = {};
  const bool ok = ::fstat(fd, &info) == 0;
  if (!ok || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw bad_input("{}: {}", path, ok && S_ISDIR(info.st_mode) ? "is a folder, not a file" : "is not a regular file");
  }
  *size = static_cast<size_t>(info.st_size);
  return fd;
}

// False, with errno, where not all of it could be written.
bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
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

// The file that a symbolic link names.
std::string resolved(const std::string& path) {
  char* const name = ::realpath(path.c_str(), nullptr);
  const std::string target = name != nullptr ? name : path;
  std::free(name);
  return target;
}

constexpr size_t kPage = 4096;

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(open_regular(path, &size_));
  if (size_ == 0) throw bad_input("{}: the file is empty", path);
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data_ == MAP_FAILED) throw failed("{}: cannot map {} bytes: {}", path, size_, std::strerror(errno));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
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

std::string read_file(const std::string& path, size_t limit) {
  size_t size = 0;
  const Descriptor file(open_regular(path, &size));
  if (size > limit) throw bad_input("{}: {} bytes are more than the {} that are read here", path, size, limit);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failed("{}: {}", path, std::strerror(errno));
    if (got == 0) break;  // shorter than fstat said: someone is writing it
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, std::span(&bytes, 1));
}

void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) throw failed("{}: is a folder, not a file", path);
  if (exists && !S_ISREG(info.st_mode)) return write_in_place(path, pieces);
  const std::string target = exists ? resolved(path) : path;
  std::string temporary = target + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) throw failed("{}: cannot write to its folder: {}", path, std::strerror(errno));
  const bool written = std::all_of(pieces.begin(), pieces.end(),
                                   [&](std::span<const std::byte> piece) { return write_all(file.get(), piece); });
  if (written && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 && file.close() == 0 &&
      ::rename(temporary.c_str(), target.c_str()) == 0) {
    return;
  }
  const int reason = errno;
  ::unlink(temporary.c_str());
  throw failed("{}: cannot write: {}", path, std::strerror(reason));
}

}  // namespace gabbro
