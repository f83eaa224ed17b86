// Q4_0, 32 elements in 18 bytes: f16 scale, 16 bytes of nibbles (elements 0-15 low, 16-31 high); value = d · (q - 8).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 2, 16, out.codes);
}

void encode(const float* values, std::byte* block) {
  uint8_t codes[32];
  store_half(block, encode_symmetric(values, 8, codes));
  pack_nibbles(codes, 16, block + 2);
}

}  // namespace

constinit const QuantFormat decoders::q4_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
