// JPEG files (ITU-T T.81), by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/images/picture.h"

namespace gabbro::images {

// As gray or RGB, upright as EXIF says; CMYK of Adobe becomes RGB. A comment becomes the text "comment", and EXIF's
// UserComment the text "parameters". `name` is for messages. Throws bad_input that names it: damaged, cut off, or
// larger than the limits.
Picture decode_jpeg(std::span<const std::byte> file, const std::string& name, const PictureLimits& limits = {});

bool is_jpeg(std::span<const std::byte> file);

}  // namespace gabbro::images
