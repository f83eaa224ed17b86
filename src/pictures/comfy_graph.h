// The graph that ComfyUI writes into its pictures, where it is the plain chain from a text to a picture.
#pragma once

#include <string>
#include <string_view>

#include "src/pictures/picture_text.h"

namespace gabbro::pictures {

// The text under the keyword "prompt": node number -> {class_type, inputs}. Understood is one KSampler with
// CheckpointLoaderSimple, two CLIPTextEncode and EmptyLatentImage; settings get the names of A1111. Throws bad_input
// that begins with `name`: no JSON, a node of another class (which is named), or inputs that are missing.
PictureText read_comfy_graph(std::string_view text, const std::string& name);

}  // namespace gabbro::pictures
