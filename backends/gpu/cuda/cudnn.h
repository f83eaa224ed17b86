// cuDNN behind ConvolutionLibrary: the legacy API, with the algorithm that the library's heuristic ranks first.
#pragma once

#include <memory>
#include <string>

#include "backends/gpu/conv_library.h"

namespace gabbro::gpu::api {

// "9.13.0"; empty where there is no library. Creates nothing.
std::string cudnn_version();

// For the current device. Null where there is no library that works.
std::unique_ptr<ConvolutionLibrary> open_cudnn();

}  // namespace gabbro::gpu::api
