// IQ1_M, 256 elements in 56 bytes: 32 bytes with the low 8 bits of grid points of eight elements, 16 bytes of nibbles
// with three more bits of a point and the sign of its offset, and four words: four 3-bit sub-scales s of 16 elements
// each, and in the top nibbles together f16 d; value = d · (2s + 1) · (x ± 1/8) with x in {-1, 0, 1}.
// The canonical levels are 8x ± 1, its scale is d / 8.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_grid.h"
#include "src/formats/quant/grids.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte *upper = block + 32, *scales = block + 48;
  out.scale = half_bits_to_float(load_nibbles(scales)) / 8;
  out.minimum = 0;
  for (int g = 0; g < 16; ++g) {
    out.sub_scales[g] = static_cast<int8_t>(2 * (load_word(scales + 2 * (g / 4)) >> (g % 4 * 3) & 7) + 1);
    out.sub_minimums[g] = 1;
  }
  for (int i = 0; i < 32; ++i) {
    const int nibble = byte_at(upper, i / 2) >> (i % 2 * 4) & 15;
    const int index = byte_at(block, i) | (nibble & 7) << 8;
    unpack_point8(kIq1SGrid[index], nibble >> 3 != 0 ? 255 : 0, out.codes + 8 * i);
  }
}

constexpr GridFormat kGrid = {.digits = 8,
                              .group = 16,
                              .largest_sub = 7,
                              .signs = GridSigns::kNone,
                              .shift = GridShift::kPoint,
                              .scale_shift = 0,
                              .first = 1.1f,
                              .step = 0.4f,
                              .count = 3};

void encode(const float* values, const float* importance, std::byte* block) {
  const GridFit<kGrid> fit(iq1_lattice(), values, importance);
  std::byte *upper = block + 32, *scales = block + 48;
  std::memset(upper, 0, 16);
  for (int i = 0; i < 32; ++i) {
    block[i] = static_cast<std::byte>(fit.points[i] & 255);
    upper[i / 2] |= static_cast<std::byte>((fit.points[i] >> 8 | (fit.shifted_down[i] ? 8 : 0)) << (i % 2 * 4));
  }
  const int scale = float_to_half_bits(fit.scale);
  for (int quarter = 0; quarter < 4; ++quarter) {
    int word = (scale >> (4 * quarter) & 15) << 12;
    for (int i = 0; i < 4; ++i) word |= fit.sub_scales[4 * quarter + i] << (3 * i);
    const auto bits = static_cast<uint16_t>(word);
    std::memcpy(scales + 2 * quarter, &bits, sizeof bits);
  }
}

}  // namespace

constinit const QuantFormat decoders::iq1_m = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
