// TQ1_0, 256 elements in 54 bytes: 48 bytes of five ternary digits, 4 bytes of four, f16 scale d; value = d · (q - 1).
// A byte b of n digits is a fraction: digit k is the integer part of 3 · (b · 3^k mod 256) / 256. The first 32 bytes
// hold elements l, l + 32, ... l + 128, the next 16 elements 160 to 239 in steps of 16, the last four the rest in steps
// of 4.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

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

// The least byte with these digits: their number in base 3, of five digits, as a fraction of 3^5.
void pack_digits(const uint8_t* codes, int count, int digits, std::byte* bytes) {
  for (int i = 0; i < count; ++i) {
    int number = 0;
    for (int k = 0; k < 5; ++k) number = 3 * number + (k < digits ? codes[k * count + i] : 0);
    bytes[i] = static_cast<std::byte>((number * 256 + 242) / 243);
  }
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<UniformLevels<-1, 1>, 1, 256, 1, 1> fit(
      values, importance, {.first = 1.0f, .step = 0.25f, .count = 12, .both_signs = false});
  pack_digits(fit.codes, 32, 5, block);
  pack_digits(fit.codes + 160, 16, 5, block + 32);
  pack_digits(fit.codes + 240, 4, 4, block + 48);
  store_half(block + 52, fit.scale);
}

}  // namespace

constinit const QuantFormat decoders::tq1_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
