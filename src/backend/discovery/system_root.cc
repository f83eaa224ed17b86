#include "src/backend/discovery/system_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

constexpr size_t kMostNames = 4096;  // far more than a machine has of anything that is listed here

std::string read_all(int descriptor, size_t limit) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < limit) {
    const ssize_t got = ::read(descriptor, buffer.data(), std::min(buffer.size(), limit - text.size()));
    if (got <= 0) break;  // files of /sys end with an error where the device is gone
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

SystemRoot SystemRoot::from_environment() {
  const char* folder = std::getenv("GABBRO_SYSFS_ROOT");
  return SystemRoot(folder != nullptr ? folder : "");
}

std::optional<std::string> SystemRoot::read(std::string_view file, size_t limit) const {
  // O_NONBLOCK: a pipe in a recorded tree must not make us wait for its writer.
  const int descriptor = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return std::nullopt;
  struct stat info = {};
  std::optional<std::string> text;
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) text = read_all(descriptor, limit);
  ::close(descriptor);
  if (text) text->erase(text->find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::optional<uint64_t> SystemRoot::read_number(std::string_view file) const {
  const auto text = read(file, 64);
  return text ? parse_number(*text) : std::nullopt;
}

bool SystemRoot::exists(std::string_view file) const { return ::access(path(file).c_str(), F_OK) == 0; }

std::string SystemRoot::link_name(std::string_view link) const {
  std::error_code error;
  return std::filesystem::read_symlink(path(link), error).filename().string();
}

std::vector<std::string> SystemRoot::list(std::string_view folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path(folder), error), end; !error && at != end; at.increment(error)) {
    if (names.size() == kMostNames) break;
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace gabbro::discovery
