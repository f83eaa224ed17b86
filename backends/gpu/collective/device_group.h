// Devices that compute one thing together, behind abi::Group.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gpu/collective/direct_sums.h"
#include "backends/gpu/device.h"

namespace gabbro::gpu {

struct DeviceGroup {
  std::vector<GpuDevice*> devices;
  api::Group* group = nullptr;         // of the runtime's own collectives; null: none
  std::unique_ptr<DirectSums> direct;  // null: none
  std::string no_direct_sums;          // why

  DeviceGroup() = default;
  ~DeviceGroup() {
    if (group != nullptr) api::collectives()->destroy_group(group);
  }
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // body(the streams' queues), with the streams held.
  template <class Body>
  void run(abi::Stream* const* streams, const Body& body) {
    std::vector<GpuStream*> own;
    for (size_t i = 0; i < devices.size(); ++i)
      own.push_back(&devices[i]->stream(streams == nullptr ? nullptr : streams[i]));
    std::vector<api::Queue*> queues;
    for (GpuStream* stream : own) queues.push_back(stream->queue());
    std::ranges::sort(own);  // one order for all threads
    std::vector<std::unique_lock<std::mutex>> locks;
    for (GpuStream* stream : own) locks.emplace_back(stream->mutex());
    body(queues);
  }
};

inline DeviceGroup& group_of(abi::Group* group) { return *reinterpret_cast<DeviceGroup*>(group); }

}  // namespace gabbro::gpu
