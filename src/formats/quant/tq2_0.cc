// TQ2_0, 256 elements in 66 bytes: 64 bytes of 2-bit codes, f16 scale d; value = d · (q - 1). Codes come in two runs of
// 128 elements, as in Q2_K.
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block + 64), 8);
  unpack_two_bits(block, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<UniformLevels<-1, 1>, 1, 256, 1, 1> fit(
      values, importance, {.first = 1.0f, .step = 0.25f, .count = 12, .both_signs = false});
  pack_two_bits(fit.codes, block);
  store_half(block + 64, fit.scale);
}

}  // namespace

constinit const QuantFormat decoders::tq2_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
