// Which instruction sets this build has, and which of them this machine can run.
#include "backends/cpu/kernel.h"

namespace gabbro::cpu {

#define GABBRO_DECLARE_ISA(isa)                \
  namespace isa {                              \
  std::span<const KernelEntry> kernel_table(); \
  }
GABBRO_DECLARE_ISA(scalar)
GABBRO_DECLARE_ISA(avx2)
GABBRO_DECLARE_ISA(avx512)
#undef GABBRO_DECLARE_ISA

namespace {

bool always() { return true; }

// F16C and FMA came with AVX2's generation; libgcc also checks that the operating system saves the registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

size_t packed_bytes(DType, int64_t, int64_t) { return 0; }
void pack(DType, int64_t, int64_t, const void*, void*, Worker&) {}

}  // namespace

std::span<const IsaTable* const> isa_tables() {
  static const IsaTable kAvx512{"avx512", has_avx512, avx512::kernel_table(), packed_bytes, pack};
  static const IsaTable kAvx2{"avx2", has_avx2, avx2::kernel_table(), packed_bytes, pack};
  static const IsaTable kScalar{"scalar", always, scalar::kernel_table(), packed_bytes, pack};
  static const IsaTable* const kTables[] = {&kAvx512, &kAvx2, &kScalar};
  return kTables;
}

}  // namespace gabbro::cpu
