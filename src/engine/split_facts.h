// The facts for --split auto of a model that is not loaded yet.
#pragma once

#include <string>

#include "gabbro/engine/engine.h"
#include "src/engine/model_needs.h"
#include "src/engine/split_choice.h"

namespace gabbro {

// Options of a model whose split is to be chosen: with Split::kAuto and several devices. Opens the devices, measures
// their links, and gives the options of the chosen way, with one device or a split; `why` is the line that says so.
// Throws bad_input for what no split model has, and the error of a device.
LoadOptions with_chosen_split(const Checkpoint& checkpoint, const LoadOptions& options, const ModelNeeds& needs,
                              std::string& why);

}  // namespace gabbro
