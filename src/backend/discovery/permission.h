// Why a device node cannot be opened, and the remedy.
#pragma once

#include "src/backend/discovery/usability.h"

namespace gabbro::discovery {

// Holds where the node is there and can be opened.
Verdict judge_node(const Machine& machine, const DeviceNode& node);

}  // namespace gabbro::discovery
