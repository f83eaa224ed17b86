// The vector vocabulary of the CPU kernels: 16 lanes everywhere, whatever the registers are. A kernel is written once
// over it, and compiled once per instruction set into namespace gabbro::cpu::GABBRO_ISA (backends/cpu/CMakeLists.txt).
// Types: F32, I32 (16 lanes), Bytes (64), Words (32 signed ones of 16 bits), Pair (two of them, broadcast), Mask (of
// 16). max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so that a NaN in either operand gives b.
#pragma once

#include GABBRO_SIMD_HEADER

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kLanes = 16;

inline F32& operator+=(F32& a, F32 b) { return a = a + b; }
inline F32& operator-=(F32& a, F32 b) { return a = a - b; }
inline F32& operator*=(F32& a, F32 b) { return a = a * b; }
inline I32& operator+=(I32& a, I32 b) { return a = a + b; }

}  // namespace gabbro::cpu::GABBRO_ISA
