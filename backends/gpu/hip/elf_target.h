// The target of an AMD code object, read from its ELF header.
#pragma once

#include <string_view>

namespace gabbro::gpu::hip {

// "gfx1100" or "gfx11-generic", from EF_AMDGPU_MACH of the header's flags (LLVM's user guide for AMDGPU, "ELF Header").
// Empty if `image` is not a 64-bit ELF file for AMDGPU, or its target is unknown.
std::string_view elf_target(std::string_view image);

}  // namespace gabbro::gpu::hip
