// Kinds of bad input for which Python has separate exceptions.
#pragma once

#include "src/base/error.h"

namespace gabbro {

// An index that is out of range.
class IndexError : public Error {
 public:
  explicit IndexError(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

// A number that a dtype does not hold.
class OverflowError : public Error {
 public:
  explicit OverflowError(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

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
