// Errors: the exceptions of the library, and their codes, which are also the exit codes of the program.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#pragma GCC visibility push(default)
namespace gabbro {

enum class ErrorCode : int {
  kFailed = 1,    // failed while running
  kBadInput = 2,  // bad usage or bad input: a file, an option, a request
  kNoDevice = 3,  // no usable device, or not enough memory
  kInterrupted = 130
};

// An error in one line that names the thing; `hint` is what the user can do about it, and may be empty. "Throws
// bad_input" in these headers means an Error with kBadInput.
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

// kBadInput: an index that is out of range.
class IndexError : public Error {
 public:
  explicit IndexError(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

// kBadInput: a number that a dtype does not hold.
class OverflowError : public Error {
 public:
  explicit OverflowError(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

// kNoDevice: a device with too little memory.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(ErrorCode::kNoDevice, message) {}
};

// kFailed: the device is lost to this process, for example after a fault in a kernel. Every later call on it fails.
class DeviceLost : public Error {
 public:
  explicit DeviceLost(const std::string& message) : Error(ErrorCode::kFailed, message) {}
};

}  // namespace gabbro
#pragma GCC visibility pop
