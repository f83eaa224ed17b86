// IQ4_NL, 32 elements in 18 bytes: f16 scale d, 16 bytes of nibbles (elements 0-15 low, 16-31 high), which index the
// 16 levels of kIq4Levels; value = d · level(q).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_one_group(out, load_half(block), 0);
  unpack_nibbles(block + 2, 16, out.codes);
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<CodebookLevels<kIq4Levels>, 1, 32, 1, 1> fit(
      values, importance, {.first = 0.8f, .step = 0.025f, .count = 16, .both_signs = true});
  store_half(block, fit.scale);
  pack_nibbles(fit.codes, 16, block + 2);
}

}  // namespace

constinit const QuantFormat decoders::iq4_nl = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
