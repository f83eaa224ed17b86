// IQ2_XXS, 256 elements in 66 bytes: f16 d, then for each 32 elements four bytes, which are grid points of eight, and a
// word: seven bits of signs of each point, a 4-bit sub-scale s; value = d / 8 · (2s + 1) · (± 8, 25 or 43).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/grids.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block) / 8;
  out.minimum = 0;
  for (int g = 0; g < 8; ++g) {
    const std::byte* group = block + 2 + 8 * g;
    const uint32_t word = load_u32(group + 4);
    set_sub_scale_pair(out, g, 2 * static_cast<int>(word >> 28) + 1);
    for (int i = 0; i < 4; ++i)
      unpack_point8(kIq2XxsGrid[byte_at(group, i)], even_signs(word >> (7 * i)), out.codes + 32 * g + 8 * i);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq2_xxs = {.decode = decode};

}  // namespace gabbro::quant
