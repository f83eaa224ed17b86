// Q2_0, 64 elements in 18 bytes: f16 scale d, 16 bytes of 2-bit codes, the first element lowest; value = d · (q - 1).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block), 2);
  for (int i = 0; i < 64; ++i) out.codes[i] = byte_at(block, 2 + i / 4) >> (i % 4 * 2) & 3;
}

}  // namespace

constinit const QuantFormat decoders::q2_0 = {.decode = decode};

}  // namespace gabbro::quant
