// Q6_K, 256 elements in 210 bytes, groups of 16: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed 8-bit
// sub-scales, f16 d; value = d · s · (q - 32).
// In two runs of 128 elements: nibble byte l of 64 holds elements l (low) and l + 64 (high); upper byte l of 32 holds
// the upper bits of elements l, l + 32, l + 64 and l + 96, low bits first.
#include <algorithm>

#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte* upper = block + 128;
  out.scale = load_half(block + 208);
  out.minimum = 0;
  std::memcpy(out.sub_scales, block + 192, 16);
  std::fill_n(out.sub_minimums, 16, uint8_t{1});
  for (int half = 0; half < 2; ++half) unpack_nibbles(block + 64 * half, 64, out.codes + 128 * half);
  add_two_bits(upper, 4, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<UniformLevels<-32, 31>, 16, 16, -128, 127> fit(
      values, importance, {.first = 0.975f, .step = 0.01f, .count = 6, .both_signs = false});
  std::byte* upper = block + 128;
  for (int half = 0; half < 2; ++half) pack_nibbles(fit.codes + 128 * half, 64, block + 64 * half);
  uint8_t upper_bits[256];
  for (int i = 0; i < 256; ++i) upper_bits[i] = fit.codes[i] >> 4;
  pack_two_bits(upper_bits, upper);
  for (int g = 0; g < 16; ++g) block[192 + g] = static_cast<std::byte>(fit.sub_scales[g]);
  store_half(block + 208, fit.scale);
}

}  // namespace

constinit const QuantFormat decoders::q6_k = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
