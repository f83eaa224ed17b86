// Floats of 8 bits, E4M3 (OCP 8-bit Floating Point Specification 1.0): sign, four bits of exponent with bias 7, three
// of mantissa. All codes are numbers here: 0x7f and 0xff, NaN in the standard, are ±480. Files with these are refused
// when they are read.
#pragma once

#include <cstdint>

#include "src/base/half.h"

namespace gabbro {

// The bits encode an f16 of 2⁻⁸ times the value, subnormal ones included.
constexpr float e4m3_value(uint8_t code) {
  return 256 * half_bits_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7));
}

}  // namespace gabbro
