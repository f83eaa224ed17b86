// IQ1_S, 256 elements in 50 bytes: f16 d, 32 bytes with the low 8 bits of grid points of eight elements, then a word
// for each 32: three more bits of the four points, a 3-bit sub-scale s, the sign of the offset; value = d · (2s + 1) ·
// (x ± 1/8) with x in {-1, 0, 1}. The canonical levels are 8x ± 1, its scale is d / 8.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
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

constexpr GridFormat kGrid = {.digits = 8,
                              .group = 32,
                              .largest_sub = 7,
                              .signs = GridSigns::kNone,
                              .shift = GridShift::kGroup,
                              .scale_shift = 0,
                              .first = 1.1f,
                              .step = 0.4f,
                              .count = 3};

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(iq1_lattice(), values, importance);
  store_half(block, fit.scale);
  for (int g = 0; g < 8; ++g) {
    int word = fit.sub_scales[g] << 12 | (fit.shifted_down[4 * g] ? 1 << 15 : 0);
    for (int i = 0; i < 4; ++i) {
      block[2 + 4 * g + i] = static_cast<std::byte>(fit.points[4 * g + i] & 255);
      word |= fit.points[4 * g + i] >> 8 << (3 * i);
    }
    const auto bits = static_cast<uint16_t>(word);
    std::memcpy(block + 34 + 2 * g, &bits, sizeof bits);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq1_s = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
