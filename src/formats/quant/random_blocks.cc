#include "src/formats/quant/random_blocks.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "src/formats/quant/blocks.h"
#include "src/formats/quant/finite.h"

namespace gabbro {
namespace {

constexpr int kSampleBlocks = 64;
constexpr int kScales = 16;  // different ones, a power of two; from half to one and a half of the middle one

void fill_bits(std::span<std::byte> out, std::mt19937_64& random) {
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= out.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = random();
    std::memcpy(out.data() + at, &bits, sizeof bits);
  }
  const uint64_t bits = random();
  std::memcpy(out.data() + at, &bits, out.size() - at);
}

// The sample's values with this scale and this minimum in each of its blocks.
std::vector<float> decode_with(DType dtype, std::vector<std::byte> sample, float scale, float minimum) {
  const DTypeInfo info = dtype_info(dtype);
  const HalfPlaces places = half_places(dtype);
  for (size_t block = 0; block < sample.size(); block += info.block_bytes) {
    quant::store_half(&sample[block + static_cast<size_t>(places.scale)], scale);
    if (places.minimum >= 0) quant::store_half(&sample[block + static_cast<size_t>(places.minimum)], minimum);
  }
  std::vector<float> values(sample.size() / info.block_bytes * info.block_elements);
  dequantize_row(dtype, sample.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

float mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0f) / static_cast<float>(values.size());
}

struct BlockScale {
  float scale;
  float minimum;
};

// Measured on a sample of random codes rather than derived for each format.
BlockScale block_scale(DType dtype, float deviation, std::mt19937_64& random) {
  std::vector<std::byte> sample(size_t{kSampleBlocks} * dtype_info(dtype).block_bytes);
  fill_bits(sample, random);
  float minimum = 0;
  if (half_places(dtype).minimum >= 0)
    minimum = -mean(decode_with(dtype, sample, 1, 0)) / mean(decode_with(dtype, sample, 0, 1));
  double squares = 0;
  const std::vector<float> values = decode_with(dtype, sample, 1, minimum);
  for (const float value : values) squares += static_cast<double>(value) * value;
  const float scale = deviation / static_cast<float>(std::sqrt(squares / static_cast<double>(values.size())));
  return {scale, scale * minimum};
}

void fill_blocks(DType dtype, std::span<std::byte> out, float deviation, std::mt19937_64& random) {
  const BlockScale middle = block_scale(dtype, deviation, random);
  const HalfPlaces places = half_places(dtype);
  fill_bits(out, random);
  uint16_t scales[kScales], minimums[kScales];
  for (int i = 0; i < kScales; ++i) {
    const float factor = 0.5f + static_cast<float>(i) / kScales;
    scales[i] = float_to_half_bits(middle.scale * factor);
    minimums[i] = float_to_half_bits(middle.minimum * factor);
  }
  for (size_t block = 0; block < out.size(); block += dtype_info(dtype).block_bytes) {
    const size_t choice = random() % kScales;
    std::memcpy(&out[block + static_cast<size_t>(places.scale)], &scales[choice], sizeof(uint16_t));
    if (places.minimum >= 0)
      std::memcpy(&out[block + static_cast<size_t>(places.minimum)], &minimums[choice], sizeof(uint16_t));
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
