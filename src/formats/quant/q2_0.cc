// Q2_0, 64 elements in 18 bytes: f16 scale d, 16 bytes of 2-bit codes, the first element lowest; value = d · (q - 1).
#include "src/formats/quant/blocks.h"
#include "src/formats/quant/fit_scale.h"

namespace gabbro::quant {
namespace {

void decode(const std::byte* block, DecodedBlock& out) {
  set_equal_groups(out, load_half(block), 2);
  for (int i = 0; i < 64; ++i) out.codes[i] = byte_at(block, 2 + i / 4) >> (i % 4 * 2) & 3;
}

void encode(const float* values, const float* importance, std::byte* block) {
  const ScaleFit<UniformLevels<-1, 2>, 1, 64, 1, 1> fit(values, importance,
                                                        {.first = 0.8f, .step = 0.15f, .count = 8, .both_signs = true});
  store_half(block, fit.scale);
  std::memset(block + 2, 0, 16);
  for (int i = 0; i < 64; ++i) block[2 + i / 4] |= static_cast<std::byte>(fit.codes[i] << (i % 4 * 2));
}

}  // namespace

constinit const QuantFormat decoders::q2_0 = {.decode = decode, .encode = encode};

}  // namespace gabbro::quant
