// IQ3_XXS, 256 elements in 98 bytes: f16 d, 64 bytes, which are grid points of four elements, and for each 32 elements
// a word: seven bits of signs of each eight, a 4-bit sub-scale s; value = d / 4 · (2s + 1) · (± 4, 12, 20, 28, 36, 44,
// 52 or 62).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/grids.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block) / 4;
  out.minimum = 0;
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = load_u32(block + 66 + 4 * g);
    out.sub_scales[g] = static_cast<int8_t>(2 * (word >> 28) + 1);
    out.sub_minimums[g] = 1;
    for (int i = 0; i < 8; ++i) {
      const int signs = even_signs(word >> (7 * (i / 2))) >> (i % 2 * 4);
      unpack_point4(kIq3XxsGrid[byte_at(block, 2 + 8 * g + i)], signs, out.codes + 32 * g + 4 * i);
    }
  }
}

}  // namespace

constinit const QuantFormat decoders::iq3_xxs = {.decode = decode};

}  // namespace gabbro::quant
