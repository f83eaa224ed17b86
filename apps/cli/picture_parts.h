// --vae, --text-encoder and --tokenizer of commands that take a pipeline of pictures.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/command_line.h"
#include "src/pictures/pipeline_parts.h"

namespace gabbro::cli {

void add_picture_parts(Command command, pictures::GivenParts& given);

// Throws bad_input that names an option that was given for another kind of model.
void refuse_picture_parts(const pictures::GivenParts& given);

// Throws bad_input "OPTION is not for pipelines of pictures" for the first option that was given.
void refuse_for_pictures(const std::vector<std::pair<bool, const char*>>& options);

}  // namespace gabbro::cli
