// --parameters: the options that a picture says it was drawn with.
#pragma once

#include <set>
#include <string>

#include "apps/cli/image_arguments.h"

namespace gabbro::cli {

// Sets the options that `o.parameters` has a value for and that are not `given` ("--steps", "PROMPT"). Text of A1111
// and graphs of ComfyUI are read by the rules of these programs. Throws bad_input that names the file: no such text,
// a value that cannot be, or a setting that cannot be repeated.
void apply_parameters(ImageArguments& o, const std::set<std::string>& given);

}  // namespace gabbro::cli
