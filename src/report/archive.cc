#include "src/report/archive.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::report {
namespace {

constexpr size_t kBlock = 512;
constexpr int kLevel = 9;
constexpr size_t kMostBytes = size_t{256} << 20;  // of an archive that is read, unpacked

// Header of POSIX.1-1988 (ustar).
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2],
      user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t N>
void set_octal(char (&field)[N], uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, N - 1);
  std::copy_n(digits.begin(), N - 1, field);
}

// The sum of the header's bytes, its own field counted as spaces.
unsigned checksum_of(Header header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  std::array<unsigned char, kBlock> bytes;
  std::memcpy(bytes.data(), &header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  return sum;
}

Header header_of(const ReportFile& file) {
  Header header = {};
  std::string name = file.name, prefix;
  if (name.size() > sizeof header.name) {
    const size_t slash = name.rfind('/', sizeof header.prefix);
    if (slash == std::string::npos || name.size() - slash - 1 > sizeof header.name)
      throw failed("the name {} does not fit an archive", file.name);
    prefix = name.substr(0, slash);
    name.erase(0, slash + 1);
  }
  std::ranges::copy(name, header.name);
  std::ranges::copy(prefix, header.prefix);
  set_octal(header.mode, 0644);
  set_octal(header.uid, 0);
  set_octal(header.gid, 0);
  set_octal(header.size, file.content.size());
  set_octal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  const std::string sum = fmt::format("{:06o}", checksum_of(header));
  std::copy_n(sum.c_str(), 7, header.checksum);
  header.checksum[7] = ' ';
  return header;
}

template <size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

std::string decompress(std::string_view bytes, const std::string& path) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  std::string out;
  size_t left = 1;
  while (in.pos < in.size) {
    std::array<char, 1 << 16> part;
    ZSTD_outBuffer target = {part.data(), part.size(), 0};
    left = ZSTD_decompressStream(stream.get(), &target, &in);
    if (ZSTD_isError(left) != 0) throw bad_input("{}: not a zstd file: {}", path, ZSTD_getErrorName(left));
    out.append(part.data(), target.pos);
    if (out.size() > kMostBytes) throw bad_input("{}: more than {} MiB unpacked", path, kMostBytes >> 20);
  }
  if (left != 0) throw bad_input("{}: the zstd data ends early", path);
  return out;
}

}  // namespace

std::string pack_archive(const std::vector<ReportFile>& files) {
  std::string tar;
  for (const ReportFile& file : files) {
    const Header header = header_of(file);
    tar.append(reinterpret_cast<const char*>(&header), kBlock);
    tar += file.content;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock);
  }
  tar.resize(tar.size() + 2 * kBlock);  // the end
  std::string packed(ZSTD_compressBound(tar.size()), '\0');
  const size_t bytes = ZSTD_compress(packed.data(), packed.size(), tar.data(), tar.size(), kLevel);
  if (ZSTD_isError(bytes) != 0) throw failed("compressing the report: {}", ZSTD_getErrorName(bytes));
  packed.resize(bytes);
  return packed;
}

std::vector<ReportFile> unpack_archive(std::string_view bytes, const std::string& path) {
  const std::string tar = decompress(bytes, path);
  std::vector<ReportFile> files;
  for (size_t at = 0;;) {
    if (at + kBlock > tar.size()) throw bad_input("{}: the archive ends early", path);
    Header header;
    std::memcpy(&header, tar.data() + at, kBlock);
    at += kBlock;
    if (header.name[0] == '\0') return files;
    unsigned sum = 0;
    uint64_t size = 0;
    const std::string digits = text_of(header.size), check = text_of(header.checksum);
    std::from_chars(check.data(), check.data() + check.size(), sum, 8);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 8);
    if (sum != checksum_of(header) || error != std::errc() || size > tar.size() - at)
      throw bad_input("{}: the archive is damaged", path);
    const std::string prefix = text_of(header.prefix);
    files.push_back({(prefix.empty() ? "" : prefix + "/") + text_of(header.name), tar.substr(at, size)});
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
}

void write_archive(const std::string& path, const std::vector<ReportFile>& files) {
  const std::string bytes = pack_archive(files);
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

std::vector<ReportFile> read_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw bad_input("{}: cannot be read: {}", path, std::strerror(errno));
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return unpack_archive(bytes, path);
}

}  // namespace gabbro::report
