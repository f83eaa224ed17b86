// Q4_0, 32 elements in 18 bytes: f16 scale, 16 bytes of nibbles (elements 0-15 low, 16-31 high); value = d · (q - 8).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 2, 16, out.codes);
}

// Without importance as llama.cpp's reference quantizer.
void encode(const float* values, const float* importance, std::byte* block) {
  uint8_t codes[32];
  if (is_weighted(importance, 32)) {
    const ScaleFit<UniformLevels<-8, 7>, 1, 32, 1, 1> fit(
        values, importance, {.first = 0.8f, .step = 0.05f, .count = 8, .both_signs = true});
    store_half(block, fit.scale);
    std::copy_n(fit.codes, 32, codes);
  } else {
    store_half(block, encode_symmetric(values, 8, codes));
  }
  pack_nibbles(codes, 16, block + 2);
}

}  // namespace

constinit const QuantFormat decoders::q4_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
