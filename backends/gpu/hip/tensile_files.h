// The files of a library that was made with Tensile (rocBLAS, hipBLASLt), in which its kernels for each target lie.
// Such a library ends the process when it finds none for a device, so they are looked for before its first call.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace gabbro::gpu::hip {

// Where librocblas.so.5.2 in /usr/lib looks for them: in `chosen` (ROCBLAS_TENSILE_LIBPATH) where that is set, else in
// /usr/lib/rocblas/library, and as Debian has it in /usr/lib/rocblas/5/library. `name`: "rocblas".
std::vector<std::filesystem::path> tensile_folders(const std::filesystem::path& library, std::string_view name,
                                                   const char* chosen);

// Whether one of the folders holds the list of the kernels for `target` ("gfx1100").
bool has_tensile_files(const std::vector<std::filesystem::path>& folders, std::string_view target);

}  // namespace gabbro::gpu::hip
