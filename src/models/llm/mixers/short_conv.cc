#include "src/models/llm/mixers/short_conv.h"

namespace gabbro::llm {

ShortConv::ShortConv(const DecoderConfig& config, int64_t taps, WeightSource& weights, const std::string& prefix)
    : channels_(config.shape.embedding), taps_(taps) {
  const int64_t c = channels_;
  in_proj_ = weights.linear(prefix + "shortconv.in_proj", {3 * c, c});
  conv_ = weights.tensor(prefix + "shortconv.conv.weight", {c, taps}, {.shape = {c, 1, taps}});
  if (const std::string bias = prefix + "shortconv.conv.bias"; weights.has(bias)) conv_b_ = weights.vector(bias, c);
  out_proj_ = weights.linear(prefix + "shortconv.out_proj", {c, c});
}

nn::CacheLayer ShortConv::cache() const {
  return {.kind = nn::CacheKind::kState, .states = {Shape{channels_, taps_ - 1}}};
}

Tensor ShortConv::operator()(const Tensor& h, const MixerStep& at) const {
  const Tensor all = (*in_proj_)(h);  // [T, 3·C]
  const auto part = [&](int64_t i) { return slice(all, 1, i * channels_, channels_); };
  const Tensor state = at.cache.states(at.layer)[0];
  Tensor y = part(1) * causal_conv(part(0) * part(2), conv_, conv_b_, state, at.step.places).y;  // [T, C]
  if (at.rows.defined()) y = gather(y, at.rows);
  return (*out_proj_)(y);
}

}  // namespace gabbro::llm
