// Random numbers of a counter: Philox 4x32-10 (Salmon et al. 2011). Every device gives the same bits, so nothing here
// is left to a compiler's or a library's choice: products are added by fma alone, and logarithm, sine and cosine are
// ours.
#include "kernels/elementwise/random.h"

#include "kernels/gpu/flat_grid.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Words {
  u32 word[4];
};

GPU_FUNCTION inline Words philox(const u32* key, u64 block) {
  const u64 counter = (static_cast<u64>(key[3]) << 32 | key[2]) + block;
  Words c = {{static_cast<u32>(counter), static_cast<u32>(counter >> 32), key[4], key[5]}};
  u32 k0 = key[0], k1 = key[1];
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 a = static_cast<u64>(0xD2511F53u) * c.word[0], b = static_cast<u64>(0xCD9E8D57u) * c.word[2];
    c = {{static_cast<u32>(b >> 32) ^ c.word[1] ^ k0, static_cast<u32>(b), static_cast<u32>(a >> 32) ^ c.word[3] ^ k1,
          static_cast<u32>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

inline constexpr float kStep = 0x1p-24f;  // of numbers in [0, 1)

// log x of 2^-24 <= x <= 1. With x = 2^k·m, m in [√½, √2), f = m - 1 and s = f/(2 + f): log m = 2·artanh(s) =
// f - f²/2 + s·(f²/2 + R(s²)).
GPU_FUNCTION inline float log_of(float x) {
  constexpr u32 kRootHalf = 0x3f3504f3;
  const u32 bits = float_to_bits(x) - kRootHalf;
  const float k = static_cast<float>(static_cast<i32>(bits) >> 23);
  const float f = bits_to_float((bits & 0x7fffff) + kRootHalf) - 1;
  const float s = f / (2 + f), z = s * s, half_square = 0.5f * f * f;
  float p = fma(z, 2.0f / 9, 2.0f / 7);
  p = fma(p, z, 2.0f / 5);
  p = fma(p, z, 2.0f / 3);
  const float log_m = f + fma(s, fma(z, p, half_square), -half_square);
  // ln 2 in two parts, the first with few enough bits that k times it is exact.
  return fma(k, 0x1.62e3p-1f, fma(k, 0x1.2fefa2p-17f, log_m));
}

struct Pair {
  float first, second;
};

// Two normal numbers of two words (Box & Muller 1958): √(-2·log u)·(cos 2πv, sin 2πv), u in (0, 1], v in [0, 1).
GPU_FUNCTION inline Pair normal_pair(u32 a, u32 b) {
  const float radius = sqrt(-2 * log_of(static_cast<float>((a >> 8) + 1) * kStep));
  // v is the nearest quarter and a rest of up to an eighth, both exact.
  const u32 shifted = (b >> 8) + (1u << 21), quarter = shifted >> 22 & 3;
  const float angle = static_cast<float>(static_cast<i32>(shifted & 0x3fffff) - (1 << 21)) * (6.28318531f * kStep);
  const float z = angle * angle, cube = angle * z;
  float p = fma(z, 1.0f / 362880, -1.0f / 5040);
  p = fma(p, z, 1.0f / 120);
  p = fma(p, z, -1.0f / 6);
  const float sine = fma(cube, p, angle);
  float q = fma(z, 1.0f / 40320, -1.0f / 720);
  q = fma(q, z, 1.0f / 24);
  q = fma(q, z, -0.5f);
  const float cosine = fma(z, q, 1.0f);
  const float c = quarter % 2 == 0 ? cosine : sine, s = quarter % 2 == 0 ? sine : cosine;
  return {radius * (quarter == 1 || quarter == 2 ? -c : c), radius * (quarter >= 2 ? -s : s)};
}

struct Bits {
  using Result = u32;
  GPU_FUNCTION static void of(const RandomArgs&, const Words& w, u32* y) {
    for (int i = 0; i < 4; ++i) y[i] = w.word[i];
  }
};
struct Uniform {
  using Result = float;
  GPU_FUNCTION static void of(const RandomArgs&, const Words& w, float* y) {
    for (int i = 0; i < 4; ++i) y[i] = static_cast<float>(w.word[i] >> 8) * kStep;
  }
};
struct Normal {
  using Result = float;
  GPU_FUNCTION static void of(const RandomArgs&, const Words& w, float* y) {
    for (int i = 0; i < 4; i += 2) {
      const Pair pair = normal_pair(w.word[i], w.word[i + 1]);
      y[i] = pair.first, y[i + 1] = pair.second;
    }
  }
};
struct Integers {
  using Result = i32;
  GPU_FUNCTION static void of(const RandomArgs& a, const Words& w, i32* y) {
    for (int i = 0; i < 4; ++i)
      y[i] = static_cast<i32>(a.low + static_cast<i64>((a.range >> 32) != 0 ? w.word[i] : w.word[i] * a.range >> 32));
  }
};

template <class Distribution>
GPU_FUNCTION inline void random(const RandomArgs& a) {
  const i64 block = flat_index(), first = 4 * block;
  if (first >= a.total) return;
  typename Distribution::Result values[4];
  Distribution::of(a, philox(a.key, static_cast<u64>(block)), values);
  auto* y = static_cast<typename Distribution::Result*>(a.y);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < a.total) y[first + i] = values[i];
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_RANDOM(name, Distribution) \
  GPU_KERNEL(random_##name, 256, gabbro::gpu::RandomArgs, random<gabbro::gpu::GABBRO_GPU::Distribution>)
GABBRO_RANDOM(bits, Bits)
GABBRO_RANDOM(uniform, Uniform)
GABBRO_RANDOM(normal, Normal)
GABBRO_RANDOM(integers, Integers)
