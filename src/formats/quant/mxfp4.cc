// MXFP4, 32 elements in 17 bytes: an E8M0 exponent e, 16 bytes of nibbles (elements 0-15 low, 16-31 high), which are
// E2M1 floats; value = 2^(e - 127) · q (OCP Microscaling Formats 1.0). The canonical levels are doubled, its scales
// halved.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, e8m0_half(byte_at(block, 0)), 0);
  unpack_nibbles(block + 1, 16, out.codes);
}

}  // namespace

constinit const QuantFormat decoders::mxfp4 = {.decode = decode};

}  // namespace gabbro::quant
