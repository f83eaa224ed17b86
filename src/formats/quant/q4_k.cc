// Q4_K, 256 elements in 144 bytes, groups of 32: f16 d, f16 dmin, 12 bytes of 6-bit sub-scales and sub-minimums
// (unpack_k_scales), 128 bytes of nibbles (decode_k_nibbles); value = d · s · q - dmin · m.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) { decode_k_nibbles(block, block + 16, out); }

}  // namespace

constinit const QuantFormat decoders::q4_k = {.decode = decode};

}  // namespace gabbro::quant
