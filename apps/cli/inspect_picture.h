// `inspect` of a picture: its size, and the texts in its file.
#pragma once

#include <string>

namespace gabbro::cli {

// Whether the file begins as a PNG or a JPEG does; false where it cannot be read.
bool is_picture_file(const std::string& path);

// Prints size and texts, prompt and settings of A1111 and of plain graphs of ComfyUI apart. Throws bad_input that names
// the file where it is damaged.
void inspect_picture(const std::string& path, bool json);

}  // namespace gabbro::cli
