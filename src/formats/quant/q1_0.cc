// Q1_0, 128 elements in 18 bytes: f16 scale d, 16 bytes of bits, the first element lowest; value = bit ? d : -d. In the
// canonical form the codes are 0 and 2 about the zero 1, as Q2_0 has them.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/encode.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block), 4);
  for (int i = 0; i < 128; ++i) out.codes[i] = static_cast<uint8_t>((byte_at(block, 2 + i / 8) >> (i % 8) & 1) * 2);
}

void encode(const float* values, const float* importance, std::byte* block) {
  ScaledBlock<128> scaled;
  scale_block(values, importance, scaled);
  float total = 0, weight = 0;
  std::memset(block, 0, 18);
  for (int i = 0; i < 128; ++i) {
    total += scaled.weights[i] * std::fabs(scaled.values[i]);
    weight += scaled.weights[i];
    if (scaled.values[i] >= 0) block[2 + i / 8] |= static_cast<std::byte>(1 << (i % 8));
  }
  store_half(block, round_to_half(total / weight, scaled.unit) * scaled.unit);
}

}  // namespace

constinit const QuantFormat decoders::q1_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
