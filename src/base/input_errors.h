// Kinds of bad input for which Python has separate exceptions, with formatted messages.
#pragma once

#include "src/base/error.h"

namespace gabbro {

// throw bad_index("[take] axis {} has no elements to select", axis);
template <class... Args>
IndexError bad_index(fmt::format_string<Args...> format, Args&&... args) {
  return IndexError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
OverflowError overflow(fmt::format_string<Args...> format, Args&&... args) {
  return OverflowError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gabbro
