// Tasks of a child process (helper_process.h): gabbro_probe opens the plugin and calls gabbro_task.
//   compile SOURCE ARCHITECTURE OUTPUT [TEXT]   compiles a source of kernels/, or the file TEXT under that name
//   images                                      checks the plugin's code and lists its targets
//   products DEVICE LIBRARY SHAPE...            tries a matrix product (product_words.h)
#pragma once

#include <string_view>

namespace gabbro::gpu::hip {

// Ahead of the one line of standard output that says why a task failed: it was refused or its result is wrong, the
// device failed, or there was no memory to try it.
inline constexpr std::string_view kErrorKey = "error=", kFaultKey = "fault=", kUnknownKey = "unknown=";

}  // namespace gabbro::gpu::hip
