// Text in a field of fixed size, as the plugin contract has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gabbro {

// Text that does not fit is cut off.
template <size_t N>
void set_text(char (&target)[N], std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.data(), length, target);
  target[length] = '\0';
}

}  // namespace gabbro
