// The error for a GPU that was asked for and cannot be had: which link of the chain is broken, and what to do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/backend/plugin.h"
#include "src/base/error.h"

namespace gabbro {

// `name`: as the user gave it, with "hip" as "rocm". Nothing where it does not name GPUs, or where the machine has the
// named kind of GPU and just not this one.
std::optional<Error> explain_missing_gpu(const std::string& name, const std::vector<Plugin>& plugins);

// One line about the best GPU of this machine that cannot be used; nothing where there is no GPU. For a run that falls
// back to the CPU. Asks no runtime.
std::optional<std::string> describe_unused_gpu();

}  // namespace gabbro
