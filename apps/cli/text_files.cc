#include "apps/cli/text_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/text_file.h"

namespace gabbro::cli {
namespace {

constexpr int kPatience = 3000;  // milliseconds without input, until a note says so

bool is_one_of(const std::string& path, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, std::string_view(path)) != names.end();
}

// All text that `descriptor` gives; `name` is what messages call it.
std::string read_all(int descriptor, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count == 0) {
      require_utf8(text, name);
      return with_unix_lines(std::string(without_byte_order_mark(text, name)));
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw bad_input("{}: cannot read: {}", name, std::strerror(errno));
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kLargestInput) throw bad_input("{}: is larger than {}", name, human_bytes(kLargestInput));
  }
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

bool is_standard_input(const std::string& path) {
  return is_one_of(path, {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"});
}

bool is_standard_output(const std::string& path) {
  return is_one_of(path, {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"});
}

std::string read_standard_input(const std::string& advice) {
  static bool was_read = false;  // there is one standard input
  if (was_read) throw bad_input("standard input was read already: it can be given once");
  was_read = true;
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (!is_terminal(STDIN_FILENO) && ::poll(&input, 1, kPatience) == 0)
    report("note", "waiting for standard input" + (advice.empty() ? "" : " (" + advice + ")"));
  return read_all(STDIN_FILENO, "standard input");
}

std::string read_input(const std::string& path) {
  if (is_standard_input(path)) return read_standard_input();
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw bad_input("{}: {}", path, std::strerror(errno));
  struct stat info = {};
  if (::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) throw bad_input("{}: is a folder, not a file", path);
  return read_all(file.get(), path);
}

void write_output(const std::string& path, std::span<const std::byte> bytes) {
  write_output(path, std::span(&bytes, 1));
}

void write_output(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  if (!is_standard_output(path)) return write_file_atomically(path, pieces);
  if (is_terminal(STDOUT_FILENO))
    throw Error(ErrorCode::kBadInput, fmt::format("{}: standard output is a terminal", path), "add > FILE");
  for (const std::span<const std::byte> piece : pieces)
    print({reinterpret_cast<const char*>(piece.data()), piece.size()});
}

void require_mappable(const std::string& path) {
  struct stat info = {};
  const bool is_pipe = ::stat(path.c_str(), &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
  if (!is_pipe && !is_standard_input(path)) return;
  throw Error(ErrorCode::kBadInput, fmt::format("{}: a model cannot be read from a pipe", path),
              "models are mapped into memory: save it to a file first");
}

}  // namespace gabbro::cli
