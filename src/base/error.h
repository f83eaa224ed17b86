// Errors with formatted messages.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "gabbro/error.h"

namespace gabbro {

// throw bad_input("{}: field '{}' at byte {} ...", file, field, offset);
template <class... Args>
Error bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorCode::kBadInput, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Error failed(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorCode::kFailed, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gabbro
