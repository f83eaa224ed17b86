// IQ1_S, 256 elements in 50 bytes: f16 d, 32 bytes with the low 8 bits of grid points of eight elements, then a word
// for each 32: three more bits of the four points, a 3-bit sub-scale s, the sign of the offset; value = d · (2s + 1) ·
// (x ± 1/8) with x in {-1, 0, 1}. The canonical levels are 8x ± 1, its scale is d / 8.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/grids.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block) / 8;
  out.minimum = 0;
  for (int g = 0; g < 8; ++g) {
    const int word = load_word(block + 34 + 2 * g);
    set_sub_scale_pair(out, g, 2 * (word >> 12 & 7) + 1);
    for (int i = 0; i < 4; ++i) {
      const int index = byte_at(block, 2 + 4 * g + i) | (word >> (3 * i) & 7) << 8;
      unpack_point8(kIq1SGrid[index], word >> 15 != 0 ? 255 : 0, out.codes + 32 * g + 8 * i);
    }
  }
}

}  // namespace

constinit const QuantFormat decoders::iq1_s = {.decode = decode};

}  // namespace gabbro::quant
