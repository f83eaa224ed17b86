// TQ2_0, 256 elements in 66 bytes: 64 bytes of 2-bit codes, f16 scale d; value = d · (q - 1). Codes come in two runs of
// 128 elements, as in Q2_K.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block + 64), 8);
  unpack_two_bits(block, out.codes);
}

}  // namespace

constinit const QuantFormat decoders::tq2_0 = {.decode = decode};

}  // namespace gabbro::quant
