// The one exception type of the library, and its codes, which are also the exit codes of the program.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gabbro {

enum class ErrorCode : int {
  kFailed = 1,    // failed while running
  kBadInput = 2,  // bad usage or bad input: a file, an option, a request
  kNoDevice = 3,  // no usable device, or not enough memory
  kInterrupted = 130
};

// An error in one line that names the thing; `hint` is what the user can do about it, and may be empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  ErrorCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ErrorCode code_;
  std::string hint_;
};

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
