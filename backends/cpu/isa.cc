#include "backends/cpu/isa.h"

#include <array>

namespace gabbro::cpu {

// GABBRO_HAS_... are the sets of this build (CMakeLists.txt).
#ifdef GABBRO_HAS_AVX512
namespace avx512 {
extern const IsaTable kTable;
}
#endif
#ifdef GABBRO_HAS_AVX2
namespace avx2 {
extern const IsaTable kTable;
}
#endif
#ifdef GABBRO_HAS_SCALAR
namespace scalar {
extern const IsaTable kTable;
}
#endif

#ifdef GABBRO_X86
// __builtin_cpu_supports also asks whether the operating system saves the registers.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#endif
bool has_scalar() { return true; }

std::span<const IsaTable* const> isa_tables() {
  static constexpr std::array kTables = {
#ifdef GABBRO_HAS_AVX512
      &avx512::kTable,
#endif
#ifdef GABBRO_HAS_AVX2
      &avx2::kTable,
#endif
#ifdef GABBRO_HAS_SCALAR
      &scalar::kTable,
#endif
  };
  return kTables;
}

}  // namespace gabbro::cpu
