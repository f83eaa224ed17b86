// Writes the archive of the plugin's device code (code_archive.h); part of the build and of tests, not of the plugin.
#pragma once

#include <string>
#include <vector>

namespace gabbro::gpu::hip {

struct CodeImage {
  std::string target;  // "gfx1100", "gfx11-generic"
  std::string source;  // "rms_norm", of kernels/rows/rms_norm.cc
  std::string elf;
};

// Throws ApiError if an image is not an ELF file of its target, or is there twice.
std::string pack_code(std::vector<CodeImage> images);

}  // namespace gabbro::gpu::hip
