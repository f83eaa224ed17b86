// Devices, versions and errors.
#include <cstdio>

#include <fmt/format.h>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::call;
using emulated_hip::Device;
using emulated_hip::Failure;
using emulated_hip::Lock;
using emulated_hip::Runtime;

hipError_t hipInit(unsigned flags) {
  return call("hipInit", [&](Runtime& runtime, Lock&) {
    if (flags != 0) throw Failure{hipErrorInvalidValue, "flags"};
    if (runtime.devices.empty()) throw Failure{hipErrorNoDevice, "EMULATED_GPUS names no device"};
  });
}

hipError_t hipGetDeviceCount(int* count) {
  return call("hipGetDeviceCount", [&](Runtime& runtime, Lock&) {
    if (count == nullptr) throw Failure{hipErrorInvalidValue, "count"};
    *count = static_cast<int>(runtime.devices.size());
    if (*count == 0) throw Failure{hipErrorNoDevice, "EMULATED_GPUS names no device"};
  });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return call("hipRuntimeGetVersion", [&](Runtime& runtime, Lock&) {
    if (version == nullptr) throw Failure{hipErrorInvalidValue, "version"};
    *version = runtime.settings.rules.number;
  });
}

hipError_t hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }

hipError_t hipSetDevice(int index) {
  return call("hipSetDevice", [&](Runtime& runtime, Lock&) { runtime.set_current_device(index); });
}

hipError_t hipGetDevice(int* index) {
  return call("hipGetDevice", [&](Runtime& runtime, Lock&) {
    if (index == nullptr) throw Failure{hipErrorInvalidValue, "device"};
    *index = runtime.current_device();
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return call("hipDeviceGet", [&](Runtime& runtime, Lock&) {
    if (device == nullptr) throw Failure{hipErrorInvalidValue, "device"};
    static_cast<void>(runtime.device(ordinal));
    *device = ordinal;
  });
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int index) {
  return call("hipGetDeviceProperties", [&](Runtime& runtime, Lock&) {
    if (properties == nullptr) throw Failure{hipErrorInvalidValue, "properties"};
    *properties = runtime.device(index).properties;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int index) {
  return call("hipDeviceGetAttribute", [&](Runtime& runtime, Lock&) {
    if (value == nullptr) throw Failure{hipErrorInvalidValue, "value"};
    const Device& device = runtime.device(index);
    const auto found = emulated_hip::attribute_of(*device.card, device.properties, attribute, runtime.settings.ranges);
    if (!found) throw Failure{hipErrorInvalidValue, fmt::format("attribute {}", static_cast<int>(attribute))};
    *value = *found;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t index) {
  return call("hipDeviceGetName", [&](Runtime& runtime, Lock&) {
    if (name == nullptr || length <= 0) throw Failure{hipErrorInvalidValue, "name"};
    std::snprintf(name, static_cast<size_t>(length), "%s", runtime.device(index).properties.name);
  });
}

hipError_t hipDeviceGetPCIBusId(char* address, int length, int index) {
  return call("hipDeviceGetPCIBusId", [&](Runtime& runtime, Lock&) {
    if (address == nullptr || length < 13) throw Failure{hipErrorInvalidValue, "the address has 13 bytes"};
    const hipDeviceProp_t& properties = runtime.device(index).properties;
    std::snprintf(address, static_cast<size_t>(length), "%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID,
                  properties.pciDeviceID);
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t index) {
  return call("hipDeviceTotalMem", [&](Runtime& runtime, Lock&) {
    if (bytes == nullptr) throw Failure{hipErrorInvalidValue, "bytes"};
    *bytes = runtime.device(index).reported;
  });
}

hipError_t hipSetDeviceFlags(unsigned flags) {
  return call("hipSetDeviceFlags", [&](Runtime& runtime, Lock&) {
    static_cast<void>(runtime.current_device());
    constexpr unsigned kKnown = hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax;
    if ((flags & ~kKnown) != 0) throw Failure{hipErrorInvalidValue, "flags"};
  });
}

hipError_t hipDeviceSynchronize() {
  return call("hipDeviceSynchronize", [&](Runtime& runtime, Lock& lock) {
    const int device = runtime.current_device();
    emulated_hip::refuse_in_capture(runtime);
    if (runtime.is_failing("hang")) runtime.engine.wait_for_ever(lock);
    runtime.engine.wait_for_all(lock, device);
    emulated_hip::end_wait(runtime);
  });
}

// Frees nothing here; after a fault it returns the error, as every call.
hipError_t hipDeviceReset() {
  return call("hipDeviceReset", [&](Runtime& runtime, Lock& lock) {
    runtime.engine.wait_for_all(lock, runtime.current_device());
    emulated_hip::end_wait(runtime);
  });
}

hipError_t hipDeviceCanAccessPeer(int* reaches, int device, int peer) {
  return call("hipDeviceCanAccessPeer", [&](Runtime& runtime, Lock&) {
    if (reaches == nullptr) throw Failure{hipErrorInvalidValue, "result"};
    static_cast<void>(runtime.device(device));
    static_cast<void>(runtime.device(peer));
    *reaches = device != peer && runtime.settings.peers ? 1 : 0;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("hipDeviceEnablePeerAccess", [&](Runtime& runtime, Lock&) {
    if (flags != 0) throw Failure{hipErrorInvalidValue, "flags"};
    static_cast<void>(runtime.device(peer));
    const int device = runtime.current_device();
    if (device == peer || !runtime.settings.peers) throw Failure{hipErrorInvalidDevice, "the peer is not reached"};
    if (!runtime.device(device).peers.insert(peer).second)
      throw Failure{hipErrorPeerAccessAlreadyEnabled, "peer access"};
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return call("hipDeviceDisablePeerAccess", [&](Runtime& runtime, Lock&) {
    if (runtime.device(runtime.current_device()).peers.erase(peer) == 0)
      throw Failure{hipErrorPeerAccessNotEnabled, "peer access"};
  });
}
