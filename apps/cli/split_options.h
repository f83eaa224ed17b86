// --devices, --split and --tensor-split: several devices for one model.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "gabbro/backend_abi.h"

namespace gabbro::cli {

void add_split_options(Command command, SplitOptions& options);

// The names of the devices of "0,1", of "all", or of names such as "cuda:0,cpu". Numbers count the devices of the
// backend of `device`, or for "auto" of the first GPU among `known`, the machine's devices in the order of auto. "all"
// are the usable devices of that backend, without integrated GPUs where there are others. Throws bad_input, and
// kNoDevice if no backend has several devices.
std::vector<std::string> parse_devices(const std::string& text, const std::string& device,
                                       const std::vector<abi::DeviceFacts>& known);
// The shares of "3,1". Throws bad_input for anything but numbers above 0.
std::vector<double> parse_shares(const std::string& text);

// Fills what the options say of several devices and processes. Throws as these two.
void apply(const CommonOptions& common, LoadOptions& options);

}  // namespace gabbro::cli
