// Pictures as cameras mean them: the orientation of EXIF.
#pragma once

#include "src/images/picture.h"

namespace gabbro::images {

// Turns and mirrors a picture that was stored with EXIF's orientation 1 to 8 (TIFF 6.0, tag 274); 1: as it is stored.
void set_upright(Picture& picture, int orientation);

}  // namespace gabbro::images
