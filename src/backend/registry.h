// Finds the backend plugins, lists their devices, and opens one by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/backend/device.h"

namespace gabbro {

// The facts of every device of every plugin, best first as `auto` ranks them. A plugin that cannot be loaded is listed
// as one unusable device with the reason.
std::vector<abi::DeviceFacts> list_devices();

// `name`: "auto" (also empty; the environment variable GABBRO_DEVICE replaces it), "gpu" (the best GPU of any vendor),
// a backend ("cpu", "rocm", also called "hip"), a device id ("cuda:0"), a PCI address ("pci:0000:03:00.0") or an
// architecture ("gfx1100"); "null" plans without running. Of several devices that a name fits, the best usable one is
// opened. Throws Error kNoDevice that says what is missing, and what to do about it.
std::shared_ptr<Device> open_device(const std::string& name, const abi::DeviceOptions& options = {});

// A backend compiled into the program, which accepts every request and runs nothing: it checks plans (null_backend.cc).
const abi::Backend* null_backend();

}  // namespace gabbro
