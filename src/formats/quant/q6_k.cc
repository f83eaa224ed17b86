// Q6_K, 256 elements in 210 bytes, groups of 16: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed 8-bit
// sub-scales, f16 d; value = d · s · (q - 32).
// In two runs of 128 elements: nibble byte l of 64 holds elements l (low) and l + 64 (high); upper byte l of 32 holds
// those of elements l, l + 32, l + 64 and l + 96, low bits first.
#include "src/formats/quant/blocks.h"

#include <algorithm>

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  const std::byte* upper = block + 128;
  out.scale = load_half(block + 208);
  out.minimum = 0;
  std::memcpy(out.sub_scales, block + 192, 16);
  std::fill_n(out.sub_minimums, 16, uint8_t{1});
  for (int half = 0; half < 2; ++half) unpack_nibbles(block + 64 * half, 64, out.codes + 128 * half);
  for (int i = 0; i < 256; ++i) {
    const int bits = (byte_at(upper, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2)) & 3;
    out.codes[i] = static_cast<uint8_t>(out.codes[i] | bits << 4);
  }
}

}  // namespace

constinit const QuantFormat decoders::q6_k = {.decode = decode};

}  // namespace gabbro::quant
