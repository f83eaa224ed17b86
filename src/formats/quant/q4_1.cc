// Q4_1, 32 elements in 20 bytes: f16 scale d, f16 minimum m, 16 bytes of nibbles (elements 0-15 low, 16-31 high);
// value = d · q + m.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), load_half(block + 2));
  unpack_nibbles(block + 4, 16, out.codes);
}

void encode(const float* values, std::byte* block) {
  uint8_t codes[32];
  float minimum;
  store_half(block, encode_range(values, 15, codes, &minimum));
  store_half(block + 2, minimum);
  pack_nibbles(codes, 16, block + 4);
}

}  // namespace

constinit const QuantFormat decoders::q4_1 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
