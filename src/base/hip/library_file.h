// Files of libamdhip64 in a folder, and the version of HIP's interface that each has.
#pragma once

#include <string>
#include <vector>

namespace gabbro::hip_search {

// Versions of the interface, the numbers after ".so.", that Gabbro knows.
inline constexpr int kOldestMajor = 6, kNewestMajor = 7;

struct LibraryFile {
  std::string path;
  int major = 0;            // 0: unknown
  std::string link_target;  // of a broken link; else empty

  bool is_known() const { return major == 0 || (major >= kOldestMajor && major <= kNewestMajor); }
};

// The name that an ELF file gives itself ("libamdhip64.so.7"); empty without one.
std::string elf_soname(const std::string& path);

// The version by the file's own name for itself, else by the name of the file, links resolved.
int major_of(const std::string& path);

// Each file once, under its shortest name with a version: known versions first, the newest before others.
std::vector<LibraryFile> libraries_in(const std::string& folder);

}  // namespace gabbro::hip_search
