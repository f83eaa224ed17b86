// IQ2_XXS, 256 elements in 66 bytes: f16 d, then for each 32 elements four bytes, which are grid points of eight, and a
// word: seven bits of signs of each point, a 4-bit sub-scale s; value = d / 8 · (2s + 1) · (± 8, 25 or 43).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
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

constexpr GridFormat kGrid = {.digits = 8,
                              .group = 32,
                              .largest_sub = 15,
                              .signs = GridSigns::kEven,
                              .scale_shift = 3,
                              .first = 0.75f,
                              .step = 0.06f,
                              .count = 8};

const Lattice& lattice() {
  static const Lattice built(kIq2XxsGrid, 256, 8, 2, {3, {8, 25, 43}, 17.5f, 8}, 16);
  return built;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(lattice(), values, importance);
  store_half(block, fit.scale * 8);
  for (int g = 0; g < 8; ++g) {
    std::byte* group = block + 2 + 8 * g;
    uint32_t word = static_cast<uint32_t>(fit.sub_scales[g]) << 28;
    for (int i = 0; i < 4; ++i) {
      group[i] = static_cast<std::byte>(fit.points[4 * g + i]);
      word |= static_cast<uint32_t>(fit.signs[4 * g + i] & 127) << (7 * i);
    }
    std::memcpy(group + 4, &word, sizeof word);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq2_xxs = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
