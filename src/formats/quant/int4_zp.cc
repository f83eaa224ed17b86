// Integers of 4 bits with a zero point, as GPTQ and AWQ folders have them, 32 elements in 20 bytes: f16 scale d, f16
// with minus the zero point z, 16 bytes of nibbles (elements 0-15 low, 16-31 high); value = d · (q - z).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), load_half(block + 2));
  unpack_nibbles(block + 4, 16, out.codes);
}

}  // namespace

constinit const QuantFormat decoders::int4_zp = {.decode = decode};

}  // namespace gabbro::quant
