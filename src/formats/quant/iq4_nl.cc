// IQ4_NL, 32 elements in 18 bytes: f16 scale d, 16 bytes of nibbles (elements 0-15 low, 16-31 high), which index the
// 16 levels of kIq4Levels; value = d · level(q).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 2, 16, out.codes);
}

}  // namespace

constinit const QuantFormat decoders::iq4_nl = {.decode = decode};

}  // namespace gabbro::quant
