// Q3_K, 256 elements in 110 bytes, groups of 16: 32 bytes of third bits (bit i / 32 of byte i % 32 is element i's),
// 64 bytes of low bits (laid out as in Q2_K), 12 bytes of 6-bit sub-scales, f16 d; value = d · (s - 32) · (q - 4).
// Sub-scale g: its low nibble is nibble g / 8 of byte g % 8, its top two bits are bits 2 · (g / 4) of byte 8 + g % 4.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte *low_bits = block + 32, *scales = block + 96;
  out.scale = load_half(block + 108);
  out.minimum = 0;
  for (int g = 0; g < 16; ++g) {
    const int low = (byte_at(scales, g % 8) >> (g / 8 * 4)) & 15;
    const int high = (byte_at(scales, 8 + g % 4) >> (g / 4 * 2)) & 3;
    out.sub_scales[g] = static_cast<int8_t>((low | high << 4) - 32);
    out.sub_minimums[g] = 1;
  }
  unpack_two_bits(low_bits, out.codes);
  add_one_bit(block, 2, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  // Equal weights need fewer candidates.
  constexpr ScaleCandidates kEqual = {.first = 0.8f, .step = 0.12f, .count = 3, .both_signs = false};
  constexpr ScaleCandidates kWeighted = {.first = 0.75f, .step = 0.1f, .count = 5, .both_signs = true};
  const ScaleFit<UniformLevels<-4, 3>, 16, 16, -32, 31> fit(values, importance,
                                                            is_weighted(importance, 256) ? kWeighted : kEqual);
  std::byte *low_bits = block + 32, *scales = block + 96;
  std::memset(block, 0, 108);
  store_half(block + 108, fit.scale);
  for (int g = 0; g < 16; ++g) {
    const int code = fit.sub_scales[g] + 32;
    scales[g % 8] |= static_cast<std::byte>((code & 15) << (g / 8 * 4));
    scales[8 + g % 4] |= static_cast<std::byte>(code >> 4 << (g / 4 * 2));
  }
  pack_two_bits(fit.codes, low_bits);
  for (int i = 0; i < 256; ++i) block[i % 32] |= static_cast<std::byte>((fit.codes[i] >> 2) << (i / 32));
}

}  // namespace

constinit const QuantFormat decoders::q3_k = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
