#include "src/models/llm/linear_biases.h"

#include <bit>
#include <cmath>

#include "src/base/half.h"

namespace gabbro::llm {
namespace {

// The cache may hold f16: a position is split into two numbers below 2048, which f16 has, up to 2048 · 256 tokens.
constexpr int64_t kPart = 256;

// The slopes of the paper for a power of two of heads; the heads after it get those between (as llama.cpp and
// transformers).
float slope(int64_t head, int64_t heads, float largest) {
  const auto powers = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const float step = largest / static_cast<float>(powers);
  if (head < powers) return std::exp2(-step * static_cast<float>(head + 1));
  return std::exp2(-step / 2 * static_cast<float>(2 * (head - powers) + 1));
}

float rounded(float value) { return half_bits_to_float(float_to_half_bits(value)); }

}  // namespace

LinearBiases::LinearBiases(const DecoderConfig& config, WeightSource& weights, const HeadRange& part) {
  const ModelShape& s = config.shape;
  const int64_t heads = part.heads.count, kv_heads = part.kv_heads.count;
  const int64_t extra = dimension(s.head_dimension) - s.head_dimension;
  std::vector<float> slopes(static_cast<size_t>(heads * extra)), low(static_cast<size_t>(kv_heads * extra));
  std::vector<float> high(low.size());
  for (int64_t h = 0; h < heads; ++h) {
    // Kernels may round queries to f16: a number that f16 has, and the rest.
    const float whole =
        slope(part.heads.first + h, s.heads, config.alibi) / (config.alibi_scaled ? 1 : config.attention_scale);
    const float first = rounded(whole), rest = whole - first;
    float* const of_head = slopes.data() + h * extra;
    of_head[0] = first;
    of_head[1] = rest;
    of_head[2] = first * kPart;
    of_head[3] = rest * kPart;
  }
  for (int64_t g = 0; g < kv_heads; ++g) {
    for (const int64_t i : {0, 1}) {
      low[static_cast<size_t>(g * extra + i)] = 1;
      high[static_cast<size_t>(g * extra + i + 2)] = 1;
    }
  }
  const auto upload = [&](const std::vector<float>& values, int64_t count) {
    const Tensor x = weights.upload(values);
    return x.defined() ? reshape(x, Shape{1, count, extra}) : x;
  };
  slopes_ = upload(slopes, heads);
  low_ = upload(low, kv_heads);
  high_ = upload(high, kv_heads);
}

Tensor LinearBiases::with_slopes(const Tensor& q) const {
  const Tensor zeros = slice(q, 2, 0, 1) * scalar(q.device(), 0);  // [T, H, 1]
  return concat({q, zeros + slopes_}, 2);
}

Tensor LinearBiases::with_positions(const Tensor& k, const Tensor& positions) const {
  const auto number = [&](double x) { return scalar(k.device(), x); };
  const Tensor at = reshape(cast(positions, DType::f32), Shape{k.shape()[0], 1, 1});
  const Tensor high = floor(at * number(1.0 / kPart));
  const Tensor low = at - high * number(kPart);
  return concat({k, low * low_ + high * high_}, 2);  // the sum [T, G, E]
}

Tensor LinearBiases::padded(const Tensor& v) const {
  return concat({v, slice(v, 2, 0, 1) * scalar(v.device(), 0) * low_}, 2);
}

}  // namespace gabbro::llm
