// Q1_0, 128 elements in 18 bytes: f16 scale d, 16 bytes of bits, the first element lowest; value = bit ? d : -d. In the
// canonical form the codes are 0 and 2 about the zero 1, as Q2_0 has them.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block), 4);
  for (int i = 0; i < 128; ++i) out.codes[i] = static_cast<uint8_t>((byte_at(block, 2 + i / 8) >> (i % 8) & 1) * 2);
}

}  // namespace

constinit const QuantFormat decoders::q1_0 = {.decode = decode};

}  // namespace gabbro::quant
