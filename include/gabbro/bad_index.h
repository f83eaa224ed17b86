#pragma once
#include "gabbro/backend_abi.h"
namespace gabbro::abi {
// An index that a kernel read was out of range.
inline constexpr StatusCode kBadIndex = static_cast<StatusCode>(6);
}  // namespace gabbro::abi
