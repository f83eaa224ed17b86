// Names of a U-Net's layers in the files of other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gabbro::pictures {

// The paths of the original Stable Diffusion (LDM) for one of diffusers: "down_blocks.0.resnets.1.conv1" becomes
// "input_blocks.2.0.in_layers.2". `resnets`: of a level downward. An upsampler has two, for a level with attention
// and for one without. Empty: no layer of a U-Net.
std::vector<std::string> ldm_paths(const std::string& path, int64_t resnets);

}  // namespace gabbro::pictures
