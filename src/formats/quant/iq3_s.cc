// IQ3_S, 256 elements in 110 bytes: f16 d, 64 bytes with the low 8 bits of grid points of four elements, 8 bytes with
// the ninth bits, 32 bytes of signs, 4 bytes of 4-bit sub-scales s of 32 elements each; value = d · (2s + 1) · (± 1, 3,
// ... or 15).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
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

constexpr GridFormat kGrid = {.digits = 4,
                              .group = 32,
                              .largest_sub = 15,
                              .signs = GridSigns::kFree,
                              .scale_shift = 0,
                              .first = 0.7f,
                              .step = 0.06f,
                              .count = 9};

const Lattice& lattice() {
  static const Lattice built(kIq3SGrid, 512, 4, 3, {8, {1, 3, 5, 7, 9, 11, 13, 15}, 2, 1}, 16);
  return built;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(lattice(), values, importance);
  store_half(block, fit.scale);
  std::memset(block + 66, 0, 8);
  for (int i = 0; i < 64; ++i) {
    block[2 + i] = static_cast<std::byte>(fit.points[i] & 255);
    block[66 + i / 8] |= static_cast<std::byte>(fit.points[i] >> 8 << (i % 8));
  }
  for (int i = 0; i < 32; ++i) block[74 + i] = static_cast<std::byte>(fit.signs[i]);
  pack_nibble_pairs(fit.sub_scales, 8, block + 106);
}

}  // namespace

constinit const QuantFormat decoders::iq3_s = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
