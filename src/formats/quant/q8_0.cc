// Q8_0, 32 elements in 34 bytes: f16 scale d, 32 signed bytes; value = d · q. The canonical code is q + 128.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(block + 2, i) ^ 128;
}

void encode(const float* values, const float* /*importance*/, std::byte* block) {
  const float scale = std::fabs(signed_peak(values, 32)) / 127;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  store_half(block, scale);
  int32_t levels[32];
  for (int i = 0; i < 32; i += kLanes) {
    // Within ±127, unless the values are not finite.
    const IntLanes rounded = round_half_away(clamp(load_lanes(values + i) * inverse, -128, 127));
    std::memcpy(levels + i, &rounded, sizeof rounded);
  }
  for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(levels[i]);
}

}  // namespace

constinit const QuantFormat decoders::q8_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
