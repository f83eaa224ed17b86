// Pictures of any format that is read.
#pragma once

#include <string>

#include "src/images/picture.h"

namespace gabbro::images {

// A PNG or JPEG file, by its first bytes. Throws bad_input that names the file: not there, of another format, or as
// decode_png() and decode_jpeg() do.
Picture read_picture(const std::string& path, const PictureLimits& limits = {});

bool is_opaque(const Picture& picture);  // no alpha below 255

// RGB: gray is repeated, and RGBA is laid over white.
Picture to_rgb(Picture picture);

}  // namespace gabbro::images
