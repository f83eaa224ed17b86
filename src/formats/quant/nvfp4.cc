// NVFP4, 64 elements in 36 bytes: four unsigned E4M3 floats s, one for each 16 elements, and 8 bytes of nibbles for
// each (elements 0-7 low, 8-15 high), which are E2M1 floats; value = s · q. Its scales have no common factor that
// leaves integers of 8 bits, so it has no canonical form.
#include "src/formats/quant/blocks.h"
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

}  // namespace

constinit const QuantFormat decoders::nvfp4 = {.dequantize = dequantize};

}  // namespace gabbro::quant
