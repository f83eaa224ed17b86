// The bit planes of a chunk: vector q (0 to 7) of 64 codes out of 64·bits bytes, and back.
// A plane of 4 bits has vectors 2v and 2v+1 in the low and high nibbles of its 64 bytes v; a plane of 2 bits has
// vectors 4v to 4v+3, a plane of 1 bit all eight, the first in the lowest bits. 3 bits: planes 2 and 1; 5: 4 and 1; 6:
// 4 and 2.
#pragma once

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

// The levels of IQ4_NL and IQ4_XS plus 128.
inline constexpr uint8_t kShiftedLevels[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

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

// Levels as unsigned bytes, of which packing.zero counts as zero.
template <Packing p, int q>
[[gnu::always_inline]] inline Bytes level_vector(const uint8_t* chunk) {
  if constexpr (p.codebook) return lookup(kShiftedLevels, code_vector<p.bits, q>(chunk));
  return code_vector<p.bits, q>(chunk);
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

// function.template operator()<dtype>() for a quantized dtype; the functions of all formats have one type.
template <class Function>
auto dispatch_quantized(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::q4_0:
      return function.template operator()<DType::q4_0>();
    case DType::q4_1:
      return function.template operator()<DType::q4_1>();
    case DType::q5_0:
      return function.template operator()<DType::q5_0>();
    case DType::q5_1:
      return function.template operator()<DType::q5_1>();
    case DType::q8_0:
      return function.template operator()<DType::q8_0>();
    case DType::q2_k:
      return function.template operator()<DType::q2_k>();
    case DType::q3_k:
      return function.template operator()<DType::q3_k>();
    case DType::q4_k:
      return function.template operator()<DType::q4_k>();
    case DType::q5_k:
      return function.template operator()<DType::q5_k>();
    case DType::q6_k:
      return function.template operator()<DType::q6_k>();
    case DType::iq4_nl:
      return function.template operator()<DType::iq4_nl>();
    default:
      return function.template operator()<DType::iq4_xs>();
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
