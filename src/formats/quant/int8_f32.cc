// Integers of 8 bits under an f32 scale, as bitsandbytes and compressed-tensors folders have them for each row, 32
// elements in 36 bytes: f32 scale d, 32 signed bytes; value = d · q. The canonical code is q + 128.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_float(block), 0);
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(block + 4, i) ^ 128;
}

}  // namespace

constinit const QuantFormat decoders::int8_f32 = {.decode = decode};

}  // namespace gabbro::quant
