// The root of discovery: this machine's /sys, /proc, /dev and /etc, or a recorded tree of them (GABBRO_SYSFS_ROOT).
// Everything that is read is treated as hostile: sizes are bounded, nothing but regular files is read, nothing throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::discovery {

class SystemRoot {
 public:
  // `folder` stands for "/"; empty: this machine.
  explicit SystemRoot(std::string folder = {}) : folder_(std::move(folder)) {}
  static SystemRoot from_environment();  // GABBRO_SYSFS_ROOT

  bool recorded() const { return !folder_.empty(); }
  std::string path(std::string_view absolute) const { return folder_ + std::string(absolute); }

  // At most `limit` bytes of a regular file, without the white space at its end; nothing where it cannot be read.
  std::optional<std::string> read(std::string_view file, size_t limit = 64 << 10) const;
  // A file that holds one number, decimal or 0x....
  std::optional<uint64_t> read_number(std::string_view file) const;
  bool exists(std::string_view file) const;
  // The last component of what a symbolic link names; empty where it is none.
  std::string link_name(std::string_view link) const;
  // The names in a folder, sorted; at most 4096 of them.
  std::vector<std::string> list(std::string_view folder) const;

 private:
  std::string folder_;
};

}  // namespace gabbro::discovery
