// How the codes and scales of the formats that files have most are stored in a block, 32 codes at a time: what pack.cc
// reads without a DecodedBlock. src/formats/quant defines the formats. Vectors of g++ and clang, since loops over bytes
// that may overlap are not vectorized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/pack/layout.h"

namespace gabbro::cpu::GABBRO_ISA {

// Vectors of 16 and 32 bytes. (g++ ignores the attribute where its argument is a template's.)
using Bytes16 = uint64_t __attribute__((vector_size(16)));
using Bytes32 = uint64_t __attribute__((vector_size(32)));
static_assert(sizeof(Bytes16) == 16 && sizeof(Bytes32) == 32);

// Bits `mask` of each byte after a shift down by `down`, shifted up by `up`; adds them where `adds`.
template <class Vector, uint8_t mask, int up = 0, bool adds = false>
inline void load_bits(const uint8_t* bytes, int down, uint8_t* codes) {
  constexpr uint64_t kMask = mask * uint64_t{0x0101010101010101};
  Vector words, held;
  std::memcpy(&words, bytes, sizeof words);
  words = (words >> down & kMask) << up;
  if constexpr (adds) {
    std::memcpy(&held, codes, sizeof held);
    words |= held;
  }
  std::memcpy(codes, &words, sizeof words);
}

template <DType dtype>
struct FileBlock;  // of other formats: there is none

template <>
struct FileBlock<DType::q8_0> {
  static void load_chunk(const uint8_t* block, int, uint8_t* codes) {
    Bytes32 bytes;
    std::memcpy(&bytes, block + 2, sizeof bytes);
    bytes ^= 0x8080808080808080;
    std::memcpy(codes, &bytes, sizeof bytes);
  }
};

template <>
struct FileBlock<DType::q4_0> {
  static constexpr int kCodes = 2;  // where they begin
  static void load_chunk(const uint8_t* block, int, uint8_t* codes) { split(block + kCodes, codes); }
  // Elements 0 to 15 in the low nibbles, the others in the high ones.
  static void split(const uint8_t* bytes, uint8_t* codes) {
    load_bits<Bytes16, 15>(bytes, 0, codes);
    load_bits<Bytes16, 15>(bytes, 4, codes + 16);
  }
};

template <>
struct FileBlock<DType::q4_1> {
  static void load_chunk(const uint8_t* block, int, uint8_t* codes) { FileBlock<DType::q4_0>::split(block + 4, codes); }
};

// Eight scales and minimums of 6 bits in 12 bytes (unpack_k_scales in src/formats/quant/blocks.h), four at a time.
inline void load_k_scales(const uint8_t* packed, uint8_t* scales, uint8_t* minimums) {
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
  uint32_t words[3];
  std::memcpy(words, packed, sizeof words);
  const uint32_t s[2] = {words[0] & kSix, (words[2] & kFour) | (words[0] >> 6 & kTwo) << 4};
  const uint32_t m[2] = {words[1] & kSix, (words[2] >> 4 & kFour) | (words[1] >> 6 & kTwo) << 4};
  std::memcpy(scales, s, sizeof s);
  std::memcpy(minimums, m, sizeof m);
}

template <>
struct FileBlock<DType::q4_k> {
  static constexpr int kScale = 0, kMinimum = 2;  // f16
  static void load_scales(const uint8_t* block, uint8_t* scales, uint8_t* minimums) {
    load_k_scales(block + 4, scales, minimums);
  }
  static void load_chunk(const uint8_t* block, int chunk, uint8_t* codes) {
    load_bits<Bytes32, 15>(block + 16 + chunk / 2 * 32, chunk % 2 * 4, codes);
  }
};

template <>
struct FileBlock<DType::q5_k> {
  static constexpr int kScale = 0, kMinimum = 2;
  static void load_scales(const uint8_t* block, uint8_t* scales, uint8_t* minimums) {
    load_k_scales(block + 4, scales, minimums);
  }
  static void load_chunk(const uint8_t* block, int chunk, uint8_t* codes) {
    load_bits<Bytes32, 15>(block + 48 + chunk / 2 * 32, chunk % 2 * 4, codes);
    load_bits<Bytes32, 1, 4, true>(block + 16, chunk, codes);
  }
};

template <>
struct FileBlock<DType::q6_k> {
  static constexpr int kScale = 208, kMinimum = -1;
  static void load_scales(const uint8_t* block, uint8_t* scales, uint8_t*) { std::memcpy(scales, block + 192, 16); }
  static void load_chunk(const uint8_t* block, int chunk, uint8_t* codes) {
    const int half = chunk / 4, run = chunk % 4;
    load_bits<Bytes32, 15>(block + 64 * half + run % 2 * 32, run / 2 * 4, codes);
    load_bits<Bytes32, 3, 4, true>(block + 128 + 32 * half, 2 * run, codes);
  }
};

}  // namespace gabbro::cpu::GABBRO_ISA
