// Sources of kernels/ and the kernels that they define. The build writes the table (kernel_names.cmake).
#pragma once

#include <span>
#include <string_view>

namespace gabbro::gpu::hip {

struct KernelFile {
  std::string_view kernel;  // "linear_q4_0_1"
  std::string_view source;  // "kernels/linear/linear_decode_q.cc"
};

// Kernels of all targets, by name.
std::span<const KernelFile> kernel_files();

// Empty if no source defines the kernel.
std::string_view source_of_kernel(std::string_view kernel);

// "rms_norm" of "kernels/rows/rms_norm.cc".
std::string_view stem_of(std::string_view source);

}  // namespace gabbro::gpu::hip
