// Kernels compiled in a child process: a compiler that crashes or hangs is one error, and the compilers of several
// children run at the same time (within a process, comgr has one lock).
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/hip/helper_process.h"

namespace gabbro::gpu::hip {

// The code object of a source of kernels/ ("kernels/rows/rms_norm.cc") for `architecture`; with `text`, of that text,
// which is made at run time and named `source`. Throws ApiError with one line that names the source.
std::vector<char> compile_in_child(const HelperProgram& program, const std::string& architecture,
                                   const std::string& source, std::string_view text = {},
                                   const std::atomic<bool>* cancel = nullptr);

}  // namespace gabbro::gpu::hip
