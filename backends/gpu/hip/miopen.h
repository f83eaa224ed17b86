// MIOpen behind ConvolutionLibrary: its immediate mode, which takes what the library's tables and heuristics rank first
// and does not search, unless it is asked for its exhaustive search, which keeps what it finds in MIOpen's own files
// and takes minutes a shape.
#pragma once

#include <memory>
#include <string>

#include "backends/gpu/conv_library.h"

namespace gabbro::gpu::hip {

// "3.5.1"; empty where there is no library. Creates nothing.
std::string miopen_version();

// For the current device. Null where there is no library that works.
std::unique_ptr<ConvolutionLibrary> open_miopen();

}  // namespace gabbro::gpu::hip
