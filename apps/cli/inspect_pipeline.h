// `inspect` of a pipeline of pictures: its parts.
#pragma once

#include <string>
#include <vector>

#include "src/pictures/pipeline_parts.h"

namespace gabbro::cli {

// Prints a folder's class, scheduler and parts. Throws bad_input that names the file.
void inspect_pipeline(const std::string& folder, bool json);

// A line for each part.
std::string part_table(const std::vector<pictures::PartSize>& parts);

}  // namespace gabbro::cli
