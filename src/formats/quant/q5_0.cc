// Q5_0, 32 elements in 22 bytes: f16 scale d, 32 fifth bits (bit i is element i's), 16 bytes of nibbles (elements 0-15
// low, 16-31 high); value = d · (q - 16).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 6, 16, out.codes);
  add_fifth_bits(block + 2, out.codes);
}

void encode(const float* values, std::byte* block) {
  uint8_t codes[32];
  store_half(block, encode_symmetric(values, 16, codes));
  store_fifth_bits(codes, block + 2);
  pack_nibbles(codes, 16, block + 6);
}

}  // namespace

constinit const QuantFormat decoders::q5_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
