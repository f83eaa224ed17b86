// IQ2_S, 256 elements in 82 bytes: f16 d, 32 bytes with the low 8 bits of grid points of eight elements, 32 bytes of
// signs, 8 bytes with two more bits of each point, 8 bytes of 4-bit sub-scales s of 16 elements each;
// value = d / 8 · (2s + 1) · (± 8, 25 or 43).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
#include "src/formats/quant/grids.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte *low = block + 2, *signs = block + 34, *high = block + 66;
  out.scale = load_half(block) / 8;
  out.minimum = 0;
  set_odd_sub_scales(block + 74, out);
  for (int i = 0; i < 32; ++i) {
    const int index = byte_at(low, i) | (byte_at(high, i / 4) >> (i % 4 * 2) & 3) << 8;
    unpack_point8(kIq2SGrid[index], byte_at(signs, i), out.codes + 8 * i);
  }
}

constexpr GridFormat kGrid = {.digits = 8,
                              .group = 16,
                              .largest_sub = 15,
                              .signs = GridSigns::kFree,
                              .scale_shift = 3,
                              .first = 0.75f,
                              .step = 0.06f,
                              .count = 8};

const Lattice& lattice() {
  static const Lattice built(kIq2SGrid, 1024, 8, 2, {3, {8, 25, 43}, 17.5f, 8}, 16);
  return built;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(lattice(), values, importance);
  store_half(block, fit.scale * 8);
  std::memset(block + 66, 0, 8);
  for (int i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<std::byte>(fit.points[i] & 255);
    block[34 + i] = static_cast<std::byte>(fit.signs[i]);
    block[66 + i / 4] |= static_cast<std::byte>(fit.points[i] >> 8 << (i % 4 * 2));
  }
  pack_nibble_pairs(fit.sub_scales, 16, block + 74);
}

}  // namespace

constinit const QuantFormat decoders::iq2_s = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
