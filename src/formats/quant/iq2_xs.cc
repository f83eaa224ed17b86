// IQ2_XS, 256 elements in 74 bytes: f16 d, 32 words of a 9-bit grid point of eight elements and seven bits of signs, 8
// bytes of 4-bit sub-scales s of 16 elements each; value = d / 8 · (2s + 1) · (± 8, 25 or 43).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
#include "src/formats/quant/grids.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block) / 8;
  out.minimum = 0;
  set_odd_sub_scales(block + 66, out);
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = load_word(block + 2 + 2 * i);
    unpack_point8(kIq2XsGrid[word & 511], even_signs(word >> 9), out.codes + 8 * i);
  }
}

constexpr GridFormat kGrid = {.digits = 8,
                              .group = 16,
                              .largest_sub = 15,
                              .signs = GridSigns::kEven,
                              .scale_shift = 3,
                              .first = 0.75f,
                              .step = 0.06f,
                              .count = 8};

const Lattice& lattice() {
  static const Lattice built(kIq2XsGrid, 512, 8, 2, {3, {8, 25, 43}, 17.5f, 8}, 16);
  return built;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(lattice(), values, importance);
  store_half(block, fit.scale * 8);
  for (int i = 0; i < 32; ++i) {
    const auto word = static_cast<uint16_t>(fit.points[i] | (fit.signs[i] & 127) << 9);
    std::memcpy(block + 2 + 2 * i, &word, sizeof word);
  }
  pack_nibble_pairs(fit.sub_scales, 16, block + 66);
}

}  // namespace

constinit const QuantFormat decoders::iq2_xs = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
