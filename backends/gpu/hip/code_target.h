// The targets of AMD's compilers: which of the code that a plugin was built with runs on a device.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gabbro::gpu::hip {

// "gfx90a" of "gfx90a:sramecc+:xnack-": without what says how the device is set up.
std::string_view target_of(std::string_view architecture);

// The generic target whose code runs on `target`: "gfx11-generic" for "gfx1100"; empty: none. After the
// table "Generic Processors" of LLVM's user guide for AMDGPU.
std::string_view generic_target(std::string_view target);

// Whether the target is RDNA: gfx10, gfx11 or gfx12.
bool is_rdna(std::string_view target);

enum class CodeKind { kExact, kGeneric, kCompiled };

struct CodeChoice {
  CodeKind kind;
  std::string target;  // of the code
};

// The device's own target, else its generic one, where `built` has it; else the kernels are compiled on first use.
CodeChoice choose_code(std::string_view architecture, std::span<const std::string_view> built);

// For people: "native kernels", "gfx11-generic kernels", "kernels compiled on first use".
std::string description_of(const CodeChoice& choice);

}  // namespace gabbro::gpu::hip
