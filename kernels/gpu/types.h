// Types that host code and kernels share. No standard header: hiprtc has none.
#pragma once

namespace gabbro::gpu {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// The bits of a half or a bfloat16; converted by the vocabulary (kernels/gpu/gpu.h).
struct Half {
  u16 bits;
};
struct BFloat {
  u16 bits;
};

// 8 bytes, moved by one instruction; the address must be a multiple of 8.
struct alignas(8) FloatPair {
  float a, b;
};

// 16 bytes, moved by one instruction; the address must be a multiple of 16.
struct alignas(16) Vec16 {
  u32 word[4];
};

// How many of something a grid has in each direction.
struct Dim {
  u32 x = 1, y = 1, z = 1;
};

}  // namespace gabbro::gpu
