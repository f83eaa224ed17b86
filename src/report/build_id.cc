#include "src/report/build_id.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

namespace gabbro::report {
namespace {

constexpr uint64_t kMostNotes = 64 << 10;

template <class T>
bool read_at(std::ifstream& file, uint64_t offset, T* target, size_t count = 1) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(target), static_cast<std::streamsize>(count * sizeof(T))));
}

// The notes of a segment: a header, the name and the value, each padded to four bytes.
std::string id_in(const std::vector<char>& notes) {
  const auto padded = [](uint64_t bytes) { return (bytes + 3) / 4 * 4; };
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const uint64_t value = at + sizeof note + padded(note.n_namesz), end = value + padded(note.n_descsz);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4) {
      std::string id;
      for (uint64_t i = value; i < value + note.n_descsz; ++i)
        id += fmt::format("{:02x}", static_cast<unsigned char>(notes[i]));
      return id;
    }
    at = end;
  }
  return {};
}

}  // namespace

std::string build_id(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file || !read_at(file, 0, &header) || !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment)) return {};
    if (segment.p_type != PT_NOTE) continue;
    std::vector<char> notes(std::min<uint64_t>(segment.p_filesz, kMostNotes));
    if (!read_at(file, segment.p_offset, notes.data(), notes.size())) return {};
    if (std::string id = id_in(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace gabbro::report
