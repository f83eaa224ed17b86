#include "src/models/llm/mixers/short_conv.h"

#include "src/models/weights/cut_tensors.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {

ShortConv::ShortConv(const DecoderConfig& config, int64_t taps, WeightSource& weights, const std::string& prefix)
    : taps_(taps) {
  const int64_t c = config.shape.embedding;
  const TensorShard* const shard = weights.shard();
  const IndexRange own = shard != nullptr ? shard->part(c, kChannelUnit) : IndexRange{0, c};
  channels_ = own.count;
  const IndexRanges thrice = {own, elements_of(own, 1, c), elements_of(own, 1, 2 * c)};
  in_proj_ = linear_rows(weights, prefix + "shortconv.in_proj", {3 * c, c}, thrice);
  conv_ = tensor_rows(weights, prefix + "shortconv.conv.weight", {c, taps}, {own}, {.shape = {c, 1, taps}});
  if (const std::string bias = prefix + "shortconv.conv.bias"; weights.has(bias))
    conv_b_ = tensor_rows(weights, bias, {c}, {own});
  out_proj_ = linear_columns(weights, prefix + "shortconv.out_proj", {c, c}, {own});
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
