// IQ4_XS, 256 elements in 136 bytes, groups of 32: f16 d, 16 bits with the upper two bits of the eight sub-scales,
// 4 bytes with their low nibbles, 128 bytes of nibbles (16 bytes a group: elements 0-15 low, 16-31 high), which index
// the 16 levels of kIq4Levels; value = d · (s - 32) · level(q).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block);
  out.minimum = 0;
  const int upper = byte_at(block, 2) | byte_at(block, 3) << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = (byte_at(block + 4, g / 2) >> (g % 2 * 4)) & 15;
    out.sub_scales[g] = static_cast<int8_t>((low | ((upper >> (2 * g)) & 3) << 4) - 32);
    out.sub_minimums[g] = 1;
    unpack_nibbles(block + 8 + 16 * g, 16, out.codes + 32 * g);
  }
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<CodebookLevels<kIq4Levels>, 8, 32, -32, 31> fit(
      values, importance, {.first = 0.84f, .step = 0.04f, .count = 8, .both_signs = true});
  store_half(block, fit.scale);
  std::memset(block + 2, 0, 6);
  for (int g = 0; g < 8; ++g) {
    const int code = fit.sub_scales[g] + 32;
    block[2 + g / 4] |= static_cast<std::byte>(code >> 4 << (g % 4 * 2));
    block[4 + g / 2] |= static_cast<std::byte>((code & 15) << (g % 2 * 4));
    pack_nibbles(fit.codes + 32 * g, 16, block + 8 + 16 * g);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq4_xs = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
