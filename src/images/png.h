// PNG files (ISO/IEC 15948), by libpng.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "src/images/picture.h"

namespace gabbro::images {

inline constexpr const char* kXmpKeyword = "XML:com.adobe.xmp";  // of the text that is an XMP packet

// The bytes of a PNG file. Texts are tEXt chunks where they are Latin-1, and else iTXt, as XMP always is. Throws
// bad_input for a keyword that PNG does not allow (1 to 79 Latin-1 characters), or a picture without pixels.
std::vector<std::byte> encode_png(const Picture& picture);

// Any PNG as 8-bit gray, RGB or RGBA: palettes are looked up, 16 bits lose the lower ones, gray with alpha becomes
// RGBA. `name` is for messages. Throws bad_input that names it: damaged, cut off, or larger than the limits.
Picture decode_png(std::span<const std::byte> file, const std::string& name, const PictureLimits& limits = {});

bool is_png(std::span<const std::byte> file);

}  // namespace gabbro::images
