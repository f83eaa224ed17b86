// Files inside a plugin: the compiled kernels (for CUDA an image for each source file of kernels/, for ROCm one
// archive, hip/code_archive.h); and, where kernels can be compiled at run time, their source. The build writes the
// tables (embedded_files.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace gabbro::gpu {

struct EmbeddedFile {
  const char* name;  // "norm" of an image, "kernels/rows/rms_norm.cc" of a source
  const char* data;  // with a zero behind it
  size_t bytes;

  std::string_view text() const { return {data, bytes}; }
};

std::span<const EmbeddedFile> code_images();
std::span<const EmbeddedFile> kernel_sources();  // and the headers they include

}  // namespace gabbro::gpu
