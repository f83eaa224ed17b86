// The instruction sets of this build, and whether this processor has them. The tables themselves are compiled once per
// set from kernel_table.cc.
#pragma once

#include "backends/cpu/kernel.h"

namespace gabbro::cpu {

bool has_avx512();  // F, BW, DQ, VL and VNNI, as the kernels of that set are compiled; else AVX2 is the faster choice
bool has_avx2();    // with FMA and F16C
bool has_scalar();

}  // namespace gabbro::cpu
