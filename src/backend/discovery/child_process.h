// Programs that may hang, run for a limited time (src/base/child_process.h).
#pragma once

#include "src/base/child_process.h"

namespace gabbro::discovery {

using gabbro::ChildResult;
using gabbro::run_child;

}  // namespace gabbro::discovery
