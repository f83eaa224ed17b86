// The times of a tensor split's links, measured as a step uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/backend/device.h"

namespace gabbro::sharded {

struct LinkTimes {
  double sum = 0;  // seconds of a sum over all devices
  double hop = 0;  // of a handover from the first device to the second, which the host waits for
};

// For f32 [1, width], of two devices or more. Takes some milliseconds. Throws the error of a device.
LinkTimes measure_links(const std::vector<std::shared_ptr<Device>>& devices, int64_t width);

}  // namespace gabbro::sharded
