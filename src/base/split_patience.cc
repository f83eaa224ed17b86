#include "src/base/split_patience.h"

#include <cstdint>
#include <cstdlib>

namespace gabbro {

std::chrono::milliseconds split_patience(std::chrono::milliseconds usual) {
  const char* const text = std::getenv("GABBRO_SPLIT_PATIENCE");
  const double seconds = text != nullptr ? std::strtod(text, nullptr) : 0;
  return seconds > 0 ? std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)) : usual;
}

}  // namespace gabbro
