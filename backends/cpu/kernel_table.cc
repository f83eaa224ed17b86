// All kernels of one instruction set (compiled once per set): the one list of what the CPU can do.
#include "backends/cpu/isa.h"

#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr KernelEntry kKernels[] = {
    {"linear", make_linear},
};

}  // namespace

extern constinit const IsaTable kTable;
constinit const IsaTable kTable = {
    .name = GABBRO_TEXT(GABBRO_ISA),
    .supported = GABBRO_ISA_SUPPORTED,
    .kernels = kKernels,
    .packed_bytes = packed_bytes,
    .pack = pack,
};

}  // namespace gabbro::cpu::GABBRO_ISA
