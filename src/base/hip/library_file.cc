#include "src/base/hip/library_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "src/base/hip/settings.h"

namespace gabbro::hip_search {
namespace {

namespace fs = std::filesystem;

// An open ELF file of this machine's kind. Its contents are hostile: every read is bounded.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~ElfFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  template <class T>
  bool read(uint64_t offset, T& value) const {
    return descriptor_ >= 0 && offset < (uint64_t{1} << 62) &&
           ::pread(descriptor_, &value, sizeof value, static_cast<off_t>(offset)) == ssize_t{sizeof value};
  }
  std::string text(uint64_t offset) const {
    std::array<char, 128> buffer{};
    if (descriptor_ < 0 || offset >= (uint64_t{1} << 62)) return {};
    const ssize_t got = ::pread(descriptor_, buffer.data(), buffer.size() - 1, static_cast<off_t>(offset));
    return got > 0 ? buffer.data() : "";
  }

 private:
  int descriptor_;
};

// ".so", ".so.7", ".so.7.2.53211": the digits after ".so.", 0 without; -1: not such a name.
int major_in(const std::string& name) {
  const std::string stem = std::string(kLibrary) + ".so";
  if (!name.starts_with(stem)) return -1;
  const std::string_view rest = std::string_view(name).substr(stem.size());
  if (rest.empty()) return 0;
  if (rest.size() < 2 || rest[0] != '.' || std::isdigit(static_cast<unsigned char>(rest[1])) == 0) return -1;
  if (rest.ends_with(".py") || rest.ends_with(".debug")) return -1;  // scripts of the debugger
  int major = 0;
  for (const char c : rest.substr(1, 6)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    major = major * 10 + (c - '0');
  }
  return major;
}

}  // namespace

std::string elf_soname(const std::string& path) {
  const ElfFile file(path);
  Elf64_Ehdr header{};
  if (!file.read(0, header) || !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!file.read(header.e_phoff + i * sizeof(Elf64_Phdr), segments[i])) return {};
  }
  const auto dynamic = std::ranges::find(segments, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (dynamic == segments.end()) return {};
  uint64_t texts = 0, name = 0;
  const uint64_t count = std::min<uint64_t>(dynamic->p_filesz / sizeof(Elf64_Dyn), 4096);
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Dyn entry{};
    if (!file.read(dynamic->p_offset + i * sizeof entry, entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) texts = entry.d_un.d_ptr;
    if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
  }
  if (texts == 0 || name == 0) return {};
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || texts < segment.p_vaddr || texts - segment.p_vaddr >= segment.p_filesz) continue;
    return file.text(segment.p_offset + (texts - segment.p_vaddr) + name);
  }
  return {};
}

int major_of(const std::string& path) {
  std::error_code error;
  for (const std::string& name :
       {elf_soname(path), fs::path(path).filename().string(), fs::canonical(path, error).filename().string()}) {
    if (const int major = major_in(name); major > 0) return major;
  }
  return 0;
}

std::vector<LibraryFile> libraries_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (std::string name = at->path().filename(); major_in(name) >= 0) names.push_back(std::move(name));
  }
  // libamdhip64.so.7, then libamdhip64.so.7.2.53211, then libamdhip64.so.
  std::ranges::sort(names, {},
                    [](const std::string& name) { return std::tuple(major_in(name) == 0, name.size(), name); });
  std::vector<LibraryFile> files;
  std::vector<fs::path> seen;
  for (const std::string& name : names) {
    LibraryFile file{.path = folder + "/" + name};
    const fs::path target = fs::canonical(file.path, error);
    if (error) {
      file.link_target = fs::read_symlink(file.path, error);
      file.major = std::max(major_in(name), 0);
    } else if (std::ranges::find(seen, target) != seen.end()) {
      continue;
    } else {
      seen.push_back(target);
      file.major = major_of(file.path);
    }
    files.push_back(std::move(file));
  }
  std::ranges::stable_sort(files, {}, [](const LibraryFile& file) {
    return std::tuple(!file.link_target.empty(), file.major == 0 || !file.is_known(), -file.major);
  });
  return files;
}

}  // namespace gabbro::hip_search
