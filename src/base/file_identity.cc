#include "src/base/file_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace gabbro {

std::string file_identity(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "gone";
  return fmt::format("{:x}.{:x}.{:x}.{:x}.{:x}.{:x}.{:x}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
}

}  // namespace gabbro
