#include "apps/cli/npy_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "src/base/error.h"

namespace gabbro::cli {

NpyWriter::NpyWriter(const std::string& path, const std::vector<int64_t>& shape)
    : path_(path), temporary_(fmt::format("{}.{}.tmp", path, getpid())) {
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw bad_input("{}: cannot be written: {}", path, std::strerror(errno));
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  // Magic, version and length take 10 bytes; the format wants the data at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const char start[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(header.size() & 0xff),
                        static_cast<char>(header.size() >> 8)};
  try {
    write_all(start, sizeof start);
    write_all(header.data(), header.size());
  } catch (...) {  // the destructor does not run
    discard();
    throw;
  }
}

NpyWriter::~NpyWriter() {
  if (descriptor_ >= 0) discard();
}

void NpyWriter::discard() {
  close(descriptor_);
  unlink(temporary_.c_str());
}

void NpyWriter::append(std::span<const float> values) { write_all(values.data(), values.size_bytes()); }

void NpyWriter::commit() {
  const bool closed = close(descriptor_) == 0;
  descriptor_ = -1;
  if (closed && std::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int reason = errno;
  unlink(temporary_.c_str());
  throw failed("{}: cannot be written: {}", path_, std::strerror(reason));
}

void NpyWriter::write_all(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(descriptor_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed("{}: cannot be written: {}", path_, std::strerror(errno));
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

}  // namespace gabbro::cli
