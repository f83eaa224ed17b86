// The object gb.Device, for the files that bind it.
#pragma once

#include "python/src/bind.h"
#include "python/src/fork.h"

namespace gabbro::python {

struct DeviceObject {
  std::shared_ptr<Device> device;
};

using DeviceClass = nb::class_<DeviceObject>;

// device.cc. The device of new tensors, where one was chosen or needed already; else null.
const Device* chosen_device();

// device_memory.cc: what a device's memory goes to, and what is kept for later.
void bind_device_memory(DeviceClass& device);
// device_tuning.cc: the known speeds of a device's candidates.
void bind_device_tuning(DeviceClass& device);

// device_threads.cc: how many threads the CPU computes with, if its name comes without a number.
int standard_cpu_threads();         // to open it with; 0: one per physical core
void cpu_computes_with(int count);  // it was opened
void bind_device_threads(nb::module_& m);

}  // namespace gabbro::python
