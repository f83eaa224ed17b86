// The codes and scales of blocks in a file's layout, one format a struct: what src/formats/quant decodes on the host
// (where the layouts are described), read element by element.
//   code(b, i, grid)   the code of element i; of 8 bits signed; `grid`: the format's lattice, for IQ1, IQ2 and IQ3
//   scale(b)           bits of an f16 as stored, or of a bf16 or an f32
//   minimum(b)         f16 bits of the summand
//   sub_scale(b, g), sub_minimum(b, g)   of group g
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU::blocks {

GPU_FUNCTION inline u32 word_at(const u8* b, int i) { return b[i] | static_cast<u32>(b[i + 1]) << 8; }
GPU_FUNCTION inline u32 long_at(const u8* b, int i) { return word_at(b, i) | word_at(b, i + 2) << 16; }
GPU_FUNCTION inline u32 bit_at(const u8* b, int i) { return b[i / 8] >> (i % 8) & 1; }
GPU_FUNCTION inline u32 nibble_at(const u8* b, int i) { return b[i / 2] >> (i % 2 * 4) & 15; }
// `count` bytes hold 2·count codes: the low nibbles come first.
GPU_FUNCTION inline u32 split_nibble(const u8* b, int count, int i) {
  return i < count ? b[i] & 15 : b[i - count] >> 4;
}
// Two runs of 128: byte l of 32 holds elements l, l + 32, l + 64 and l + 96.
GPU_FUNCTION inline u32 two_bits(const u8* b, int i) { return b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
// The signs of eight elements out of seven bits: their number is even.
GPU_FUNCTION inline u32 even_signs(u32 bits) {
  const u32 seven = bits & 127;
  u32 parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  return seven | ((parity ^ parity >> 1) & 1) << 7;
}
// Element i of a lattice point, and its sign.
GPU_FUNCTION inline u32 point8(u32 point, u32 signs, int i) { return (point >> (2 * i) & 3) | (signs >> i & 1) << 2; }
GPU_FUNCTION inline u32 point4(u32 point, u32 signs, int i) { return (point >> (3 * i) & 7) | (signs >> i & 1) << 3; }
GPU_FUNCTION inline u32 negated(u32 half) { return half ^ 0x8000; }

// Defaults of formats without sub-scales or minimum.
struct Plain {
  GPU_FUNCTION static u32 minimum(const u8*) { return 0; }
  GPU_FUNCTION static u32 sub_scale(const u8*, int) { return 1; }
  GPU_FUNCTION static u32 sub_minimum(const u8*, int) { return 1; }
};
template <int at>
struct ScaleAt : Plain {
  GPU_FUNCTION static u32 scale(const u8* b) { return word_at(b, at); }
};

struct q4_0 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 2, 16, i); }
};
struct q4_1 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 4, 16, i); }
  GPU_FUNCTION static u32 minimum(const u8* b) { return word_at(b, 2); }
};
struct q5_0 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return split_nibble(b + 6, 16, i) | bit_at(b + 2, i) << 4;
  }
};
struct q5_1 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return split_nibble(b + 8, 16, i) | bit_at(b + 4, i) << 4;
  }
  GPU_FUNCTION static u32 minimum(const u8* b) { return word_at(b, 2); }
};
struct q8_0 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return b[2 + i]; }
};
struct q2_k : ScaleAt<80> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return two_bits(b + 16, i); }
  GPU_FUNCTION static u32 minimum(const u8* b) { return negated(word_at(b, 82)); }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return b[g] & 15; }
  GPU_FUNCTION static u32 sub_minimum(const u8* b, int g) { return b[g] >> 4; }
};
struct q3_k : ScaleAt<108> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return two_bits(b + 32, i) | (b[i % 32] >> (i / 32) & 1) << 2;
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) {
    const u8* scales = b + 96;
    return ((scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
  }
};
// Q4_K and Q5_K.
struct KScales : ScaleAt<0> {
  GPU_FUNCTION static u32 minimum(const u8* b) { return negated(word_at(b, 2)); }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) {
    return g < 4 ? b[4 + g] & 63 : (b[8 + g] & 15) | b[g] >> 6 << 4;
  }
  GPU_FUNCTION static u32 sub_minimum(const u8* b, int g) {
    return g < 4 ? b[8 + g] & 63 : b[8 + g] >> 4 | b[4 + g] >> 6 << 4;
  }
};
struct q4_k : KScales {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return split_nibble(b + 16 + i / 64 * 32, 32, i % 64);
  }
};
struct q5_k : KScales {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return split_nibble(b + 48 + i / 64 * 32, 32, i % 64) | (b[16 + i % 32] >> (i / 32) & 1) << 4;
  }
};
struct q6_k : ScaleAt<208> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    return split_nibble(b + i / 128 * 64, 64, i % 128) | two_bits(b + 128, i) << 4;
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return b[192 + g]; }
};
struct iq4_nl : q4_0 {};
struct iq4_xs : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 8 + i / 32 * 16, 16, i % 32); }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) {
    return (nibble_at(b + 4, g) | (word_at(b, 2) >> (2 * g) & 3) << 4) - 32;
  }
};
struct mxfp4 : Plain {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 1, 16, i); }
  // bf16 of 2^(exponent - 128).
  GPU_FUNCTION static u32 scale(const u8* b) { return b[0] < 2 ? 0x20u << b[0] : (b[0] - 1u) << 7; }
};
struct q1_0 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return bit_at(b + 2, i) * 2; }
};
struct q2_0 : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return b[2 + i / 4] >> (i % 4 * 2) & 3; }
};
struct tq1_0 : ScaleAt<52> {
  // Digit k of a byte.
  GPU_FUNCTION static u32 digit(u32 byte, int k) {
    for (; k > 0; --k) byte = byte * 3 & 255;
    return byte * 3 >> 8;
  }
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) {
    if (i < 160) return digit(b[i % 32], i / 32);
    if (i < 240) return digit(b[32 + i % 16], (i - 160) / 16);
    return digit(b[48 + i % 4], (i - 240) / 4);
  }
};
struct tq2_0 : ScaleAt<64> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return two_bits(b, i); }
};
struct iq1_s : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const u32 word = word_at(b, 34 + i / 32 * 2);
    const u32 index = b[2 + i / 8] | (word >> (i % 32 / 8 * 3) & 7) << 8;
    return point8(grid[index], word >> 15 != 0 ? 255 : 0, i % 8);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * (word_at(b, 34 + g / 2 * 2) >> 12 & 7) + 1; }
};
struct iq1_m : Plain {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const u32 nibble = nibble_at(b + 32, i / 8);
    return point8(grid[b[i / 8] | (nibble & 7) << 8], nibble >> 3 != 0 ? 255 : 0, i % 8);
  }
  GPU_FUNCTION static u32 scale(const u8* b) {
    u32 bits = 0;
    for (int i = 0; i < 4; ++i) bits |= word_at(b, 48 + 2 * i) >> 12 << (4 * i);
    return bits;
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) {
    return 2 * (word_at(b, 48 + g / 4 * 2) >> (g % 4 * 3) & 7) + 1;
  }
};
struct iq2_xxs : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const u8* group = b + 2 + i / 32 * 8;
    const int point = i % 32 / 8;
    return point8(grid[group[point]], even_signs(long_at(group, 4) >> (7 * point)), i % 8);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * (b[2 + g / 2 * 8 + 7] >> 4) + 1u; }
};
struct iq2_xs : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const u32 word = word_at(b, 2 + i / 8 * 2);
    return point8(grid[word & 511], even_signs(word >> 9), i % 8);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * nibble_at(b + 66, g) + 1; }
};
struct iq2_s : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const int point = i / 8;
    return point8(grid[b[2 + point] | (b[66 + point / 4] >> (point % 4 * 2) & 3) << 8], b[34 + point], i % 8);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * nibble_at(b + 74, g) + 1; }
};
struct iq3_xxs : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const u32 signs = even_signs(long_at(b, 66 + i / 32 * 4) >> (i % 32 / 8 * 7));
    return point4(grid[b[2 + i / 4]], signs >> (i % 8 / 4 * 4), i % 4);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * (b[66 + g * 4 + 3] >> 4) + 1u; }
};
struct iq3_s : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16* grid) {
    const int point = i / 4;
    return point4(grid[b[2 + point] | bit_at(b + 66, point) << 8], nibble_at(b + 74, point), i % 4);
  }
  GPU_FUNCTION static u32 sub_scale(const u8* b, int g) { return 2 * nibble_at(b + 106, g) + 1; }
};

struct int4_zp : ScaleAt<0> {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 4, 16, i); }
  GPU_FUNCTION static u32 minimum(const u8* b) { return word_at(b, 2); }
};
// Bytes under an f32 scale.
struct int8_f32 : Plain {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return b[4 + i]; }
  GPU_FUNCTION static u32 scale(const u8* b) { return long_at(b, 0); }
};
struct fp8_e4m3 : int8_f32 {};
struct nf4 : Plain {
  GPU_FUNCTION static u32 code(const u8* b, int i, const u16*) { return split_nibble(b + 4, 32, i); }
  // The largest level of kNf4Levels is 8191.
  GPU_FUNCTION static u32 scale(const u8* b) { return float_to_bits(bits_to_float(long_at(b, 0)) / 8191.0f); }
};

}  // namespace gabbro::gpu::GABBRO_GPU::blocks
