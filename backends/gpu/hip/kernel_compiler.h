// Kernels compiled in this process by hiprtc, from the plugin's own copy of their source. compile_child.h does so in
// another process.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/embedded_files.h"

namespace gabbro::gpu::hip {

// Whether there is a compiler.
bool can_compile();

// The code object of one file of kernels/, or of a text that is made at run time and includes these, for `architecture`
// ("gfx90a:sramecc+:xnack-"). Takes seconds. Throws ApiError with the reason if there is no libhiprtc or
// the compiler refuses the source.
std::vector<char> compile_kernels(const EmbeddedFile& source, const std::string& architecture);

}  // namespace gabbro::gpu::hip
