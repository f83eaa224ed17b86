#include "src/formats/quant/random_blocks.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "src/formats/quant/blocks.h"
#include "src/formats/quant/scale_codes.h"

namespace gabbro {
namespace {

constexpr int kSampleBlocks = 512;
constexpr int kScales = 16;  // different ones, a power of two; from half to one and a half of the middle one
// Over the standard deviation. Larger means would make one direction of the states outgrow all others, so that routers
// of random mixtures chose the same experts for every token.
constexpr float kLargestMean = 0.01f;

void fill_bits(std::span<std::byte> out, std::mt19937_64& random) {
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= out.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = random();
    std::memcpy(out.data() + at, &bits, sizeof bits);
  }
  const uint64_t bits = random();
  std::memcpy(out.data() + at, &bits, out.size() - at);
}

// The block's scale, and minimum if it has one.
void store_scales(const QuantTraits& traits, float scale, float minimum, std::byte* block) {
  quant::store_scale(traits, scale, block);
  if (traits.has_minimum()) quant::store_half(block + traits.minimum_at, minimum);
}

// The sample's values with this scale and this minimum in each of its blocks.
std::vector<float> decode_with(DType dtype, std::vector<std::byte> sample, float scale, float minimum) {
  const QuantTraits& traits = quant_traits(dtype);
  const auto size = static_cast<size_t>(traits.block_bytes);
  for (size_t block = 0; block < sample.size(); block += size) store_scales(traits, scale, minimum, &sample[block]);
  std::vector<float> values(sample.size() / size * static_cast<size_t>(traits.block_elements));
  dequantize_row(dtype, sample.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

float mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0f) / static_cast<float>(values.size());
}

struct BlockScale {
  float scale;
  float minimum;
  bool both_signs;  // levels without a zero mean: every other block has the negative scale
};

// Measured on a sample of random codes rather than derived for each format.
BlockScale block_scale(DType dtype, float deviation, std::mt19937_64& random) {
  std::vector<std::byte> sample(size_t{kSampleBlocks} * dtype_info(dtype).block_bytes);
  fill_bits(sample, random);
  float minimum = 0;
  if (quant_traits(dtype).has_minimum())
    minimum = -mean(decode_with(dtype, sample, 1, 0)) /
              (mean(decode_with(dtype, sample, 1, 1)) - mean(decode_with(dtype, sample, 1, 0)));
  double squares = 0;
  const std::vector<float> values = decode_with(dtype, sample, 1, minimum);
  for (const float value : values) squares += static_cast<double>(value) * value;
  const float root = static_cast<float>(std::sqrt(squares / static_cast<double>(values.size())));
  const float scale = deviation / root;
  return {scale, quant_traits(dtype).zero_points ? minimum : scale * minimum,
          std::fabs(mean(values)) > kLargestMean * root};
}

void fill_blocks(DType dtype, std::span<std::byte> out, float deviation, std::mt19937_64& random) {
  const BlockScale middle = block_scale(dtype, deviation, random);
  const QuantTraits& traits = quant_traits(dtype);
  fill_bits(out, random);
  for (size_t block = 0; block < out.size(); block += static_cast<size_t>(traits.block_bytes)) {
    const uint64_t choice = random();
    const float factor = 0.5f + static_cast<float>(choice % kScales) / kScales;
    const float sign = middle.both_signs && choice / kScales % 2 == 1 ? -1.0f : 1.0f;
    const float minimum = traits.zero_points ? middle.minimum : middle.minimum * factor;
    store_scales(traits, sign * middle.scale * factor, minimum, &out[block]);
  }
}

// Uniform, which is as good as any distribution here and quick.
void fill_numbers(DType dtype, std::span<std::byte> out, float deviation, std::mt19937_64& random) {
  constexpr size_t kChunk = 1024;
  float values[kChunk];
  const float step = deviation * std::sqrt(3.0f) / 32768;
  const size_t size = dtype_info(dtype).block_bytes;
  for (size_t done = 0; done < out.size();) {
    for (size_t i = 0; i < kChunk; i += 4) {
      const uint64_t bits = random();
      for (size_t part = 0; part < 4; ++part)
        values[i + part] = step * static_cast<float>(static_cast<int16_t>(bits >> (16 * part)));
    }
    const size_t count = std::min(kChunk, (out.size() - done) / size);
    quantize_row(dtype, values, out.data() + done, static_cast<int64_t>(count));
    done += count * size;
  }
}

}  // namespace

void fill_random(DType dtype, std::span<std::byte> out, float deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (is_quantized(dtype)) {
    fill_blocks(dtype, out, deviation, random);
  } else {
    fill_numbers(dtype, out, deviation, random);
  }
}

}  // namespace gabbro
