// Q5_1, 32 elements in 24 bytes: f16 scale d, f16 minimum m, 32 fifth bits (bit i is element i's), 16 bytes of nibbles
// (elements 0-15 low, 16-31 high); value = d · q + m.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_range.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), load_half(block + 2));
  unpack_nibbles(block + 8, 16, out.codes);
  add_fifth_bits(block + 4, out.codes);
}

// Without importance as llama.cpp's reference quantizer.
void encode(const float* values, const float* importance, std::byte* block) {
  uint8_t codes[32];
  if (is_weighted(importance, 32)) {
    const RangeFit<31, 1, 32, 1> fit(values, importance, {.first = 29.5f, .step = 0.15f, .count = 24});
    store_half(block, fit.scale);
    store_half(block + 2, fit.minimum);
    std::copy_n(fit.codes, 32, codes);
  } else {
    float minimum;
    store_half(block, encode_range(values, 31, codes, &minimum));
    store_half(block + 2, minimum);
  }
  store_fifth_bits(codes, block + 4);
  pack_nibbles(codes, 16, block + 8);
}

}  // namespace

constinit const QuantFormat decoders::q5_1 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
