// The compiled kernels inside a plugin: one image for each source file of kernels/, with the code of all targets in it.
// The build writes the table (code_images.cmake).
#pragma once

#include <cstddef>
#include <span>

namespace gabbro::gpu {

struct CodeImage {
  const char* name;  // of the source file
  const void* data;
  size_t bytes;
};

std::span<const CodeImage> code_images();

}  // namespace gabbro::gpu
