// The models that a file may hold and that are not built: each is refused by its name.
#pragma once

#include <string>

#include "src/formats/checkpoint.h"

namespace gabbro::pictures {

// Throws bad_input: "PATH: holds TITLE, which is not supported", with the kinds that are as the hint.
[[noreturn]] void refuse_model(const std::string& path, const std::string& title);

// Throws as above if the names of a file tell another model, an adapter, or weights in a form that is not read.
void refuse_other_models(const Checkpoint& checkpoint);

// True of files of diffusion models, adapters and upscalers, supported or not.
bool holds_pictures(const Checkpoint& checkpoint);

// For a file without a U-Net in the original layout: throws bad_input that names its kind.
[[noreturn]] void refuse_without_unet(const Checkpoint& checkpoint);

}  // namespace gabbro::pictures
