// FP8 weights of safetensors folders, 32 elements in 36 bytes: f32 scale d, 32 bytes of E4M3 floats q; value = d · q.
#include "src/formats/quant/blocks.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_float(block), 0);
  std::memcpy(out.codes, block + 4, 32);
}

}  // namespace

constinit const QuantFormat decoders::fp8_e4m3 = {.decode = decode};

}  // namespace gabbro::quant
