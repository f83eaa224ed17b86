// Q4_K, 256 elements in 144 bytes, groups of 32: f16 d, f16 dmin, 12 bytes of 6-bit sub-scales and sub-minimums
// (unpack_k_scales), 128 bytes of nibbles; value = d · s · q - dmin · m.
// Nibbles come in quarters of 64 elements: byte l of 32 holds elements l (low) and l + 32 (high).
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  out.scale = load_half(block);
  out.minimum = -load_half(block + 2);
  unpack_k_scales(block + 4, out);
  for (int quarter = 0; quarter < 4; ++quarter) unpack_nibbles(block + 16 + 32 * quarter, 32, out.codes + 64 * quarter);
}

}  // namespace

constinit const QuantFormat kQ4K = {.dtype = DType::q4_k,
                                    .bits = 4,
                                    .group = 32,
                                    .zero = 0,
                                    .has_minimum = true,
                                    .has_sub_scales = true,
                                    .decode = decode};

}  // namespace gabbro::quant
