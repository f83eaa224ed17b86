// The devices of the backend plugins: list_devices() and open_device() of gabbro/backend/device.h, and a backend for
// tests.
#pragma once

#include "src/backend/device.h"

namespace gabbro {

// A backend compiled into the program, which accepts every request and runs nothing: it checks plans (null_backend.cc).
const abi::Backend* null_backend();

}  // namespace gabbro
