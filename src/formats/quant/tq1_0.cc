// TQ1_0, 256 elements in 54 bytes: 48 bytes of five ternary digits, 4 bytes of four, f16 scale d; value = d · (q - 1).
// A byte b of n digits is a fraction: digit k is the integer part of 3 · (b · 3^k mod 256) / 256. The first 32 bytes
// hold elements l, l + 32, ... l + 128, the next 16 those of 160 to 239 in steps of 16, the last four the rest in steps
// of 4.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

// `count` bytes of `digits` digits each.
void unpack_digits(const std::byte* bytes, int count, int digits, uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    uint8_t rest = byte_at(bytes, i);
    for (int k = 0; k < digits; ++k, rest = static_cast<uint8_t>(rest * 3))
      codes[k * count + i] = static_cast<uint8_t>(rest * 3 >> 8);
  }
}

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block + 52), 8);
  unpack_digits(block, 32, 5, out.codes);
  unpack_digits(block + 32, 16, 5, out.codes + 160);
  unpack_digits(block + 48, 4, 4, out.codes + 240);
}

}  // namespace

constinit const QuantFormat decoders::tq1_0 = {.decode = decode};

}  // namespace gabbro::quant
