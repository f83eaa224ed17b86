// IQ4_XS, 256 elements in 136 bytes, groups of 32: f16 d, 16 bits with the upper two bits of the eight sub-scales,
// 4 bytes with their low nibbles, 128 bytes of nibbles (16 bytes a group: elements 0-15 low, 16-31 high), which index
// the 16 levels of kIq4Levels; value = d · (s - 32) · level(q).
#include "src/formats/quant/blocks.h"

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

}  // namespace

constinit const QuantFormat decoders::iq4_xs = {.decode = decode};

}  // namespace gabbro::quant
