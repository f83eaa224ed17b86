// `fit --memory`: the effect of a memory budget on one device, as JSON and as a line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "src/engine/streaming/host_blocks.h"
#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/pass_forecast.h"
#include "src/engine/streaming/placement.h"

namespace gabbro::cli {

// The effect of --memory on one device.
struct StreamForecast {
  std::string device;
  streaming::Placement placement;
  streaming::LinkSpeeds speeds;
  streaming::HostPlan host;
  uint64_t least = 0;            // bytes
  streaming::PassForecast pass;  // of one token
};

nlohmann::ordered_json stream_document(const StreamForecast& f);

// `memory`: the budget as it was given.
std::string stream_line(const StreamForecast& f, const std::string& memory);

}  // namespace gabbro::cli
