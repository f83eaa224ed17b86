// Kernels compiled on this machine, by nvrtc from texts that include the plugin's own copy of kernels/.
#pragma once

#include <string>
#include <vector>

namespace gabbro::gpu::api {

// "nvrtc13.0"; empty where there is no compiler.
std::string compiler_version();

// The code (cubin) of a text for compute capability `capability` (90). Takes tenths of a second. Throws ApiError where
// the compiler refuses it.
std::vector<char> compile_text(const std::string& name, const std::string& text, int capability);

}  // namespace gabbro::gpu::api
