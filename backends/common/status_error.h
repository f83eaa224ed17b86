// A failure with the status that a plugin's caller is told.
#pragma once

#include <stdexcept>
#include <string>

#include "gabbro/backend_abi.h"

namespace gabbro::abi {

class StatusError : public std::runtime_error {
 public:
  StatusError(StatusCode status, const std::string& message) : std::runtime_error(message), code(status) {}
  StatusCode code;
};

}  // namespace gabbro::abi
