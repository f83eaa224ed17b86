// The bit planes of a chunk: vector q (0 to 7) of 64 codes out of 64·bits bytes, and back.
// A plane of 4 bits has vectors 2v and 2v+1 in the low and high nibbles of its 64 bytes v; a plane of 2 bits has
// vectors 4v to 4v+3, a plane of 1 bit all eight, the first in the lowest bits. 3 bits: planes 2 and 1; 5: 4 and 1; 6:
// 4 and 2.
#pragma once

#include <array>
#include <iterator>
#include <utility>

#include "backends/cpu/pack/layout.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// body(std::integral_constant<int, 0>) to body(std::integral_constant<int, count - 1>).
template <int count, class Body>
[[gnu::always_inline]] inline void unroll(Body&& body) {
  // With a large body g++ would not inline it, and would keep the sums in memory.
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, count>{});
}

// A codebook's levels plus packing.zero: unsigned bytes.
template <Packing p>
inline constexpr auto kShiftedLevels = [] {
  std::array<uint8_t, 16> shifted{};
  for (size_t i = 0; i < shifted.size(); ++i) shifted[i] = static_cast<uint8_t>(p.levels.value[i] + p.zero);
  return shifted;
}();

// Bits of a plane of `width` bits for vector q, moved to bit `at` of each byte.
template <int width, int at, int q>
[[gnu::always_inline]] inline Bytes plane_bits(const uint8_t* plane) {
  constexpr int kPerVector = 8 / width, kShift = q % kPerVector * width, kMask = (1 << width) - 1;
  const Bytes bytes = load_bytes(plane + q / kPerVector * 64);
  if constexpr (kShift >= at) {
    return bits_down<kShift - at, (kMask << at)>(bytes);
  } else {
    return bits_up<at - kShift, (kMask << kShift)>(bytes);
  }
}

template <int bits, int q>
[[gnu::always_inline]] inline Bytes code_vector(const uint8_t* chunk) {
  if constexpr (bits == 8) {
    return load_bytes(chunk + 64 * q);
  } else if constexpr (bits == 4 || bits == 2) {
    return plane_bits<bits, 0, q>(chunk);
  } else if constexpr (bits == 3) {
    return plane_bits<2, 0, q>(chunk) | plane_bits<1, 2, q>(chunk + 128);
  } else if constexpr (bits == 5) {
    return plane_bits<4, 0, q>(chunk) | plane_bits<1, 4, q>(chunk + 256);
  } else {
    return plane_bits<4, 0, q>(chunk) | plane_bits<2, 4, q>(chunk + 256);
  }
}

// Levels as unsigned bytes; packing.zero counts as zero.
template <Packing p, int q>
[[gnu::always_inline]] inline Bytes level_vector(const uint8_t* chunk) {
  if constexpr (p.levels.used) return lookup(kShiftedLevels<p>.data(), code_vector<p.bits, q>(chunk));
  return code_vector<p.bits, q>(chunk);
}

// Levels as words, of bytes 0 and 2 and of bytes 1 and 3 of each lane. Wide levels are 256 times the entry of one table
// less the entry of another.
struct LevelWords {
  Words even, odd;
};
template <Packing p>
inline constexpr auto kWideLevels = [] {
  std::array<std::array<uint8_t, 16>, 2> tables{};
  for (int i = 0; i < 16; ++i) {
    const int level = 256 * p.levels.value[i] + p.levels.low[i], high = (level + 256 * 256 + 255) / 256 - 256;
    tables[0][static_cast<size_t>(i)] = static_cast<uint8_t>(high);
    tables[1][static_cast<size_t>(i)] = static_cast<uint8_t>(256 * high - level);
  }
  return tables;
}();
template <Packing p, int q>
[[gnu::always_inline]] inline LevelWords level_words(const uint8_t* chunk) {
  if constexpr (p.levels.wide) {
    const Bytes codes = code_vector<p.bits, q>(chunk);
    const Bytes high = lookup(kWideLevels<p>[0].data(), codes), low = lookup(kWideLevels<p>[1].data(), codes);
    const Words unit = splat_words(256);
    return {even_bytes(high) * unit - even_bytes(low), odd_bytes(high) * unit - odd_bytes(low)};
  }
  const Bytes levels = level_vector<p, q>(chunk);
  return {even_bytes(levels), odd_bytes(levels)};
}

// The scales of a chunk's 16 rows, of formats without sub-scales; for E4M3 the scales of load_e4m3().
template <Packing p>
[[gnu::always_inline]] inline F32 load_scale(const uint8_t* header) {
  if constexpr (p.float_scale) {
    const F32 scale = load(reinterpret_cast<const float*>(header));
    return p.e4m3 ? scale * splat(256) : scale;
  }
  if constexpr (p.bfloat_scale) return load_bfloat(header);
  return load_half(header);
}
template <Packing p>
[[gnu::always_inline]] inline F32 load_minimum(const uint8_t* header, F32 scale) {
  const F32 minimum = load_half(header + 32);
  return p.zero_points ? minimum * scale : minimum;
}

// Builds a plane of `width` bits out of bits `from` and up of the eight vectors.
template <int width, int from>
inline void store_plane(const uint8_t* vectors, uint8_t* plane) {
  constexpr int kPerVector = 8 / width, kMask = (1 << width) - 1;
  unroll<width>([&](auto v) {
    Bytes bytes = splat_byte(0);
    unroll<kPerVector>([&](auto i) {
      const Bytes part = bits_down<from, kMask>(load_bytes(vectors + (v * kPerVector + i) * 64));
      bytes = bytes | bits_up<i * width, kMask>(part);
    });
    store_bytes(plane + v * 64, bytes);
  });
}

// vectors: 8 × 64 codes.
template <int bits>
inline void store_codes(const uint8_t* vectors, uint8_t* chunk) {
  if constexpr (bits == 8) {
    std::memcpy(chunk, vectors, 512);
  } else if constexpr (bits == 4 || bits == 2) {
    store_plane<bits, 0>(vectors, chunk);
  } else if constexpr (bits == 3) {
    store_plane<2, 0>(vectors, chunk);
    store_plane<1, 2>(vectors, chunk + 128);
  } else if constexpr (bits == 5) {
    store_plane<4, 0>(vectors, chunk);
    store_plane<1, 4>(vectors, chunk + 256);
  } else {
    store_plane<4, 0>(vectors, chunk);
    store_plane<2, 4>(vectors, chunk + 256);
  }
}

// function.template operator()<packing>() of a quantized dtype, a function pointer of one type for all packings; null
// where has_panels() is false.
template <class Function>
auto dispatch_packing(DType dtype, const Function& function) {
  decltype(function.template operator()<packing_of(kPackedFormats[0])>()) found = nullptr;
  [&]<size_t... i>(std::index_sequence<i...>) {
    const auto is_it = [&]<size_t row>() {
      constexpr Packing p = packing_of(kPackedFormats[row]);
      if (packing_of(dtype) == p) found = function.template operator()<p>();
      return found != nullptr;
    };
    (is_it.template operator()<i>() || ...);
  }
  (std::make_index_sequence<std::size(kPackedFormats)>{});
  return found;
}

}  // namespace gabbro::cpu::GABBRO_ISA
