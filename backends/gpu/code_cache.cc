#include "backends/gpu/code_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace gabbro::gpu {
namespace {

namespace fs = std::filesystem;

std::string cache_root() {
  const char *own = std::getenv("GABBRO_HOME"), *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (own != nullptr && *own != '\0') return own;
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/gabbro";
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/gabbro";
}

// A file ends with the hash of what comes before.
constexpr size_t kHashBytes = sizeof(uint64_t);

}  // namespace

uint64_t fnv1a(std::string_view bytes, uint64_t hash) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

CodeCache::CodeCache(std::string_view architecture, std::string_view compiler, std::span<const EmbeddedFile> sources) {
  const std::string root = cache_root();
  if (root.empty()) return;
  uint64_t hash = fnv1a("");
  for (const EmbeddedFile& source : sources) hash = fnv1a(source.text(), fnv1a(source.name, hash));
  std::string target(architecture);
  std::ranges::replace(target, ':', '_');
  folder_ = fmt::format("{}/kernels/{}-{}-{:016x}", root, target, compiler, hash);
}

std::optional<std::vector<char>> CodeCache::load(const std::string& name) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(fmt::format("{}/{}.hsaco", folder_, name), std::ios::binary);
  std::vector<char> code{std::istreambuf_iterator<char>(file), {}};
  if (code.size() <= kHashBytes) return std::nullopt;
  uint64_t stored = 0;
  std::memcpy(&stored, code.data() + code.size() - kHashBytes, kHashBytes);
  code.resize(code.size() - kHashBytes);
  if (fnv1a({code.data(), code.size()}) != stored) return std::nullopt;
  return code;
}

bool CodeCache::store(const std::string& name, std::span<const char> code) const {
  if (folder_.empty()) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string path = fmt::format("{}/{}.hsaco", folder_, name), scratch = fmt::format("{}.{}", path, ::getpid());
  const uint64_t hash = fnv1a({code.data(), code.size()});
  std::ofstream file(scratch, std::ios::binary);
  file.write(code.data(), static_cast<std::streamsize>(code.size()));
  file.write(reinterpret_cast<const char*>(&hash), kHashBytes);
  file.close();
  if (file) fs::rename(scratch, path, error);
  if (file && !error) return true;
  fs::remove(scratch, error);
  return false;
}

}  // namespace gabbro::gpu
