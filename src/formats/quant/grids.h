// The lattices of IQ1, IQ2 and IQ3 (ggml-common.h): grid points as words, 8 digits of 2 bits or 4 digits of 3 bits, the
// first one lowest. A digit and a sign make a code, of the codebooks in traits.h. Private to this folder.
#pragma once

#include <bit>
#include <cstdint>

namespace gabbro::quant {

extern const uint16_t kIq1SGrid[2048], kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024];  // 2 bits
extern const uint16_t kIq3XxsGrid[256], kIq3SGrid[512];                                     // 3 bits

// Codes of a point of 8 digits; bit i of `signs` is that of code i.
inline void unpack_point8(int point, int signs, uint8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = static_cast<uint8_t>((point >> (2 * i) & 3) | (signs >> i & 1) << 2);
}

// As above, for a point of 4 digits.
inline void unpack_point4(int point, int signs, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) codes[i] = static_cast<uint8_t>((point >> (3 * i) & 7) | (signs >> i & 1) << 3);
}

// The signs of eight elements out of seven bits: their number is even.
inline int even_signs(uint32_t bits) {
  const uint32_t seven = bits & 127;
  return static_cast<int>(seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7);
}

}  // namespace gabbro::quant
