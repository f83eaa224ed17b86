// NF4 of bitsandbytes (Dettmers et al. 2023, QLoRA), 64 elements in 36 bytes: f32 scale d, the block's largest
// magnitude, 32 bytes of nibbles (elements 0-31 low, 32-63 high); value = d · level(q). Kernels multiply with the
// levels rounded to 14 bits.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

// create_normal_map() of bitsandbytes/functional.py.
constexpr float kLevels[16] = {-1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f};
constexpr float kLargestLevel = 8191;

constexpr bool levels_agree() {
  for (int i = 0; i < 16; ++i) {
    const float rest = kLevels[i] * kLargestLevel - static_cast<float>(quant_level(kNf4Levels, i));
    if (rest > 0.5f || rest < -0.5f) return false;
  }
  return true;
}
static_assert(levels_agree());

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_float(block) / kLargestLevel, 2);
  unpack_nibbles(block + 4, 32, out.codes);
}

void dequantize(const std::byte* block, float* out) {
  const float scale = load_float(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * kLevels[byte_at(block + 4, i) & 15];
    out[i + 32] = scale * kLevels[byte_at(block + 4, i) >> 4];
  }
}

}  // namespace

constinit const QuantFormat decoders::nf4 = {.decode = decode, .dequantize = dequantize};

}  // namespace gabbro::quant
