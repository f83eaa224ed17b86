// IQ3_XXS, 256 elements in 98 bytes: f16 d, 64 bytes, which are grid points of four elements, and for each 32 elements
// a word: seven bits of signs of each eight, a 4-bit sub-scale s; value = d / 4 · (2s + 1) · (± 4, 12, 20, 28, 36, 44,
// 52 or 62).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
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

constexpr GridFormat kGrid = {.digits = 4,
                              .group = 32,
                              .largest_sub = 15,
                              .signs = GridSigns::kEven,
                              .scale_shift = 2,
                              .first = 0.7f,
                              .step = 0.06f,
                              .count = 9};

const Lattice& lattice() {
  static const Lattice built(kIq3XxsGrid, 256, 4, 3, {8, {4, 12, 20, 28, 36, 44, 52, 62}, 8, 4}, 16);
  return built;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(lattice(), values, importance);
  store_half(block, fit.scale * 4);
  for (int g = 0; g < 8; ++g) {
    uint32_t word = static_cast<uint32_t>(fit.sub_scales[g]) << 28;
    for (int i = 0; i < 8; ++i) block[2 + 8 * g + i] = static_cast<std::byte>(fit.points[8 * g + i]);
    for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(fit.signs[4 * g + i] & 127) << (7 * i);
    std::memcpy(block + 66 + 4 * g, &word, sizeof word);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq3_xxs = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
