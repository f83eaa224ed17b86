// `inspect --explain`: what a single file of Stable Diffusion is, and why.
#pragma once

#include <string>

namespace gabbro::cli {

// Throws bad_input that names the file for what is not recognized.
void explain_single_file(const std::string& path, bool json);

}  // namespace gabbro::cli
