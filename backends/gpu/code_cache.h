// Kernels that were compiled on this machine, kept in files: $GABBRO_HOME/kernels, or gabbro/kernels in
// $XDG_CACHE_HOME or ~/.cache, with a
// folder for each target, runtime and source. A damaged file is as good as none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/embedded_files.h"

namespace gabbro::gpu {

// FNV-1a (Fowler, Noll and Vo), of 64 bits; with the hash of what came before, of both.
uint64_t fnv1a(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325);

class CodeCache {
 public:
  // `architecture` as the runtime names it, "gfx90a:sramecc+:xnack-"; `compiler` with its version, "hip70253211".
  CodeCache(std::string_view architecture, std::string_view compiler, std::span<const EmbeddedFile> sources);

  // Nothing where there is no such file, or it is not what was stored.
  std::optional<std::vector<char>> load(const std::string& name) const;
  // False where it cannot be kept. Processes may store at the same time.
  bool store(const std::string& name, std::span<const char> code) const;

  const std::string& folder() const { return folder_; }  // empty where neither variable is set

 private:
  std::string folder_;
};

}  // namespace gabbro::gpu
