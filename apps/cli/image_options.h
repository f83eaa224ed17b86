// The options of `image`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/cli/command_line.h"
#include "apps/cli/image_arguments.h"

namespace gabbro::cli {

using NamedOptions = std::vector<std::pair<std::string, Option>>;  // "--steps"

// All but the model and the options that commands share. `o` has to live as long as the command line is read.
NamedOptions add_image_options(Command& command, ImageArguments& o);

// --precision
void add_precision(Command& command, std::string& precision);
// --memory of pictures.
void add_picture_memory(Command& command, CommonOptions& options);

}  // namespace gabbro::cli
