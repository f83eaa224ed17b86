#include "src/engine/streaming/link_cache.h"

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::streaming {
namespace {

std::filesystem::path cache_file() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "gabbro" / "links";
  return home != nullptr && *home == '/' ? std::filesystem::path(home) / ".cache" / "gabbro" / "links"
                                         : std::filesystem::path();
}

}  // namespace

double LinkCache::now() { return static_cast<double>(std::time(nullptr)); }

LinkCache::LinkCache() {
  std::ifstream file(cache_file());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string link;
    double speed = 0, time = 0;
    constexpr double kDay = 86400;
    if (words >> link >> speed >> time && speed > 0 && now() - time < kDay) speeds_[link] = {speed, time};
  }
}

void LinkCache::save() const {
  const std::filesystem::path path = cache_file();
  if (path.empty()) return;
  std::string text;
  for (const auto& [link, known] : speeds_) text += fmt::format("{} {:.0f} {:.0f}\n", link, known.speed, known.time);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  try {
    write_file_atomically(path.string(), std::as_bytes(std::span(text)));
  } catch (const Error&) {  // measured again the next time
  }
}

}  // namespace gabbro::streaming
