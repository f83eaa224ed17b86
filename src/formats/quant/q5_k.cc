// Q5_K, 256 elements in 176 bytes, groups of 32: f16 d, f16 dmin, 12 bytes of 6-bit sub-scales and sub-minimums
// (unpack_k_scales), 32 bytes of fifth bits (bit i / 32 of byte i % 32 is element i's), 128 bytes of nibbles (as Q4_K);
// value = d · s · q - dmin · m.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_range.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  decode_k_nibbles(block, block + 48, out);
  add_one_bit(block + 16, 4, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  const RangeFit<31, 8, 32, 63> fit(values, importance, {.first = 30.2f, .step = 0.1f, .count = 14});
  std::memset(block + 16, 0, 32);
  encode_k_nibbles(fit, block, block + 48);
  for (int i = 0; i < 256; ++i) {
    block[16 + i % 32] |= static_cast<std::byte>((fit.codes[i] >> 4) << (i / 32));
  }
}

}  // namespace

constinit const QuantFormat decoders::q5_k = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
