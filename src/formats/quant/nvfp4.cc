// NVFP4, 64 elements in 36 bytes: four unsigned E4M3 floats s, one for each 16 elements, and 8 bytes of nibbles for
// each (elements 0-7 low, 8-15 high), which are E2M1 floats; value = s · q. Its scales have no common factor that
// leaves integers of 8 bits, so it has no canonical form.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void dequantize(const std::byte* block, float* out) {
  for (int g = 0; g < 4; ++g) {
    const float scale = ue4m3_half(byte_at(block, g));
    uint8_t codes[16];
    unpack_nibbles(block + 4 + 8 * g, 8, codes);
    for (int i = 0; i < 16; ++i) out[16 * g + i] = scale * kFp4Levels.value[codes[i]];
  }
}

// The largest code whose scale is not above `scale`; codes are in the order of their scales.
int find_code(float scale) {
  int low = 0, high = 127;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (ue4m3_half(static_cast<uint8_t>(middle)) <= scale ? low : high) = middle;
  }
  return low;
}

void encode(const float* values, const float* importance, std::byte* block) {
  using Levels = CodebookLevels<kFp4Levels>;
  ScaledBlock<64> scaled;
  scale_block(values, importance, scaled);
  for (int g = 0; g < 4; ++g) {
    const float* x = scaled.values + 16 * g;
    const float* w = scaled.weights + 16 * g;
    float peak = 0;
    for (int i = 0; i < 16; ++i) peak = std::max(peak, std::fabs(x[i]));
    const int nearest = find_code(peak / 12 * scaled.unit);
    float least = std::numeric_limits<float>::infinity();
    int best_code = 0;
    uint8_t codes[16] = {};
    for (int first = nearest - 3; first < nearest + 9; first += kLanes) {
      Lanes scales;
      for (int lane = 0; lane < kLanes; ++lane) {
        scales[lane] = ue4m3_half(static_cast<uint8_t>(std::clamp(first + lane, 0, 126))) / scaled.unit;
      }
      const Lanes inverse = invert(scales);
      Lanes errors{}, levels[16];
      for (int i = 0; i < 16; ++i) {
        levels[i] = Levels::nearest(x[i] * inverse);
        const Lanes rest = x[i] - scales * levels[i];
        errors += w[i] * rest * rest;
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        if (!(errors[lane] < least)) continue;
        least = errors[lane];
        best_code = std::clamp(first + lane, 0, 126);
        for (int i = 0; i < 16; ++i) codes[i] = Levels::code(levels[i][lane]);
      }
    }
    block[g] = static_cast<std::byte>(best_code);
    pack_nibbles(codes, 8, block + 4 + 8 * g);
  }
}

}  // namespace

constinit const QuantFormat decoders::nvfp4 = {.dequantize = dequantize, .encode = encode};

}  // namespace gabbro::quant
