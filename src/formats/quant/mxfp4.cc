// MXFP4, 32 elements in 17 bytes: an E8M0 exponent e, 16 bytes of nibbles (elements 0-15 low, 16-31 high), which are
// E2M1 floats; value = 2^(e - 127) · q (OCP Microscaling Formats 1.0). The canonical levels are doubled, its scales
// halved.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, e8m0_half(byte_at(block, 0)), 0);
  unpack_nibbles(block + 1, 16, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  // The peak is in [1, 2) units and the highest level is 12: the scale is 1/2, 1/4, 1/8 or 1/16 unit, one in each lane.
  using Levels = CodebookLevels<kFp4Levels>;
  constexpr Lanes kScales = {0.5f, 0.25f, 0.125f, 0.0625f}, kInverse = {2, 4, 8, 16};
  ScaledBlock<32> scaled;
  scale_block(values, importance, scaled);
  Lanes errors{};
  for (int i = 0; i < 32; ++i) {
    const Lanes rest = scaled.values[i] - kScales * Levels::nearest(scaled.values[i] * kInverse);
    errors += scaled.weights[i] * rest * rest;
  }
  int best = 0;
  for (int lane = 1; lane < kLanes; ++lane) {
    if (errors[lane] < errors[best]) best = lane;
  }
  block[0] = static_cast<std::byte>(std::ilogb(scaled.unit) - 1 - best + 128);
  uint8_t codes[32];
  for (int i = 0; i < 32; i += kLanes) {
    const Lanes levels = Levels::nearest(load_lanes(scaled.values + i) * kInverse[best]);
    for (int lane = 0; lane < kLanes; ++lane) codes[i + lane] = Levels::code(levels[lane]);
  }
  pack_nibbles(codes, 16, block + 1);
}

}  // namespace

constinit const QuantFormat decoders::mxfp4 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
