// Q4_K, 256 elements in 144 bytes, groups of 32: f16 d, f16 dmin, 12 bytes of 6-bit sub-scales and sub-minimums
// (unpack_k_scales), 128 bytes of nibbles (decode_k_nibbles); value = d · s · q - dmin · m.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_range.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) { decode_k_nibbles(block, block + 16, out); }

void encode(const float* values, const float* importance, std::byte* block) {
  const RangeFit<15, 8, 32, 63> fit(values, importance, {.first = 14.0f, .step = 0.12f, .count = 16});
  encode_k_nibbles(fit, block, block + 16);
}

}  // namespace

constinit const QuantFormat decoders::q4_k = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
