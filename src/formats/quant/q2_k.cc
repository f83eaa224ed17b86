// Q2_K, 256 elements in 84 bytes, groups of 16: 16 bytes of sub-scales (low nibble) and sub-minimums (high nibble),
// 64 bytes of codes, f16 d, f16 dmin; value = d · s · q - dmin · m.
// Codes come in two runs of 128 elements: byte l of 32 holds elements l, l + 32, l + 64 and l + 96, low bits first.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_range.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block + 80);
  out.minimum = -load_half(block + 82);
  for (int g = 0; g < 16; ++g) {
    out.sub_scales[g] = static_cast<int8_t>(byte_at(block, g) & 15);
    out.sub_minimums[g] = byte_at(block, g) >> 4;
  }
  unpack_two_bits(block + 16, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  const RangeFit<3, 16, 16, 15> fit(values, importance, {.first = 2.4f, .step = 0.1f, .count = 16});
  store_half(block + 80, fit.scale);
  store_half(block + 82, fit.minimum);
  for (int g = 0; g < 16; ++g) block[g] = static_cast<std::byte>(fit.sub_scales[g] | fit.sub_minimums[g] << 4);
  pack_two_bits(fit.codes, block + 16);
}

}  // namespace

constinit const QuantFormat decoders::q2_k = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
