// IQ3_S, 256 elements in 110 bytes: f16 d, 64 bytes with the low 8 bits of grid points of four elements, 8 bytes with
// the ninth bits, 32 bytes of signs, 4 bytes of 4-bit sub-scales s of 32 elements each; value = d · (2s + 1) · (± 1, 3,
// ... or 15).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/grids.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte *low = block + 2, *high = block + 66, *signs = block + 74, *scales = block + 106;
  out.scale = load_half(block);
  out.minimum = 0;
  for (int g = 0; g < 8; ++g) {
    out.sub_scales[g] = static_cast<int8_t>(2 * (byte_at(scales, g / 2) >> (g % 2 * 4) & 15) + 1);
    out.sub_minimums[g] = 1;
  }
  for (int i = 0; i < 64; ++i) {
    const int index = byte_at(low, i) | (byte_at(high, i / 8) >> (i % 8) & 1) << 8;
    unpack_point4(kIq3SGrid[index], byte_at(signs, i / 2) >> (i % 2 * 4), out.codes + 4 * i);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq3_s = {.decode = decode};

}  // namespace gabbro::quant
