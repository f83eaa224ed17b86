// Files of a library made with Tensile (rocBLAS, hipBLASLt), which hold its kernels for each target. Such a library
// ends the process if it finds none for a device, so they are looked for before its first call.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::gpu::hip {

// Folders in which librocblas.so.5.2 in /usr/lib looks for them: `chosen` (ROCBLAS_TENSILE_LIBPATH) if set, else
// /usr/lib/rocblas/library, and on Debian /usr/lib/rocblas/5/library. `name`: "rocblas".
std::vector<std::filesystem::path> tensile_folders(const std::filesystem::path& library, std::string_view name,
                                                   const char* chosen);

// Whether one of the folders holds the list of the kernels for `target` ("gfx1100").
bool has_tensile_files(const std::vector<std::filesystem::path>& folders, std::string_view target);

// One line that names the folders and the package if the list is missing; empty if it is there. Arguments as in
// tensile_folders.
std::string missing_tensile_files(const std::filesystem::path& library, std::string_view name, const char* chosen,
                                  std::string_view target);

}  // namespace gabbro::gpu::hip
