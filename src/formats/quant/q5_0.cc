// Q5_0, 32 elements in 22 bytes: f16 scale d, 32 fifth bits (bit i is element i's), 16 bytes of nibbles (elements 0-15
// low, 16-31 high); value = d · (q - 16).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 6, 16, out.codes);
  add_fifth_bits(block + 2, out.codes);
}

// Without importance as llama.cpp's reference quantizer.
void encode(const float* values, const float* importance, std::byte* block) {
  uint8_t codes[32];
  if (is_weighted(importance, 32)) {
    const ScaleFit<UniformLevels<-16, 15>, 1, 32, 1, 1> fit(
        values, importance, {.first = 0.88f, .step = 0.025f, .count = 8, .both_signs = true});
    store_half(block, fit.scale);
    std::copy_n(fit.codes, 32, codes);
  } else {
    store_half(block, encode_symmetric(values, 16, codes));
  }
  store_fifth_bits(codes, block + 2);
  pack_nibbles(codes, 16, block + 6);
}

}  // namespace

constinit const QuantFormat decoders::q5_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
