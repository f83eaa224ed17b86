#include "src/models/llm/self_attention.h"

namespace gabbro::llm {

SelfAttention::SelfAttention(const DecoderConfig& config, const LayerKind& kind, Rope rope, WeightSource& weights,
                             const std::string& prefix)
    : config_(config), kind_(kind), rope_(std::move(rope)) {
  const ModelShape& s = config_.shape;
  const int64_t q_width = s.heads * s.head_dimension, kv_width = s.kv_heads * s.head_dimension;
  if (weights.has(prefix + "attn_qkv.weight")) {
    TransformersLayout theirs = config_.fused_rows;
    theirs.transposed = config_.transposed_linears;
    const auto rows = [&](int64_t first, int64_t count) {
      return weights.linear(prefix + "attn_qkv",
                            {.rows = q_width + 2 * kv_width, .columns = s.embedding, .first = first, .count = count},
                            theirs);
    };
    attn_q_ = rows(0, q_width);
    attn_k_ = rows(q_width, kv_width);
    attn_v_ = rows(q_width + kv_width, kv_width);
  } else {
    const TransformersLayout theirs =
        config_.paired_heads ? paired_rows(s.head_dimension, config_.rope.dimensions) : TransformersLayout{};
    attn_q_ = weights.linear(prefix + "attn_q", {q_width, s.embedding}, theirs);
    attn_k_ = weights.linear(prefix + "attn_k", {kv_width, s.embedding}, theirs);
    attn_v_ = weights.linear(prefix + "attn_v", {kv_width, s.embedding});
  }
  if (config_.qk_norm != QkNorm::kNone) {
    const bool of_all = config_.qk_norm == QkNorm::kAllHeads;
    attn_q_norm_ = load_norm(config_, weights, prefix + "attn_q_norm", of_all ? q_width : s.head_dimension);
    attn_k_norm_ = load_norm(config_, weights, prefix + "attn_k_norm", of_all ? kv_width : s.head_dimension);
  }
  if (config_.attention_sinks) attn_sinks_ = weights.vector(prefix + "attn_sinks.weight", s.heads);
  attn_output_ =
      weights.linear(prefix + "attn_output", {s.embedding, q_width}, {.transposed = config_.transposed_linears});
}

nn::CacheLayer SelfAttention::cache() const {
  return {.heads = config_.shape.kv_heads, .dimension = config_.shape.head_dimension, .window = kind_.window};
}

// [T, n·D] -> [T, n, D]
Tensor SelfAttention::heads(const Tensor& x, const Norm& norm) const {
  const int64_t d = config_.shape.head_dimension;
  const Shape shape{x.shape()[0], x.shape()[1] / d, d};
  return config_.qk_norm == QkNorm::kAllHeads ? reshape(normalized(config_, norm, x), shape)
                                              : normalized(config_, norm, reshape(x, shape));
}

Tensor SelfAttention::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions& places = at.step.places;
  Tensor q = heads(attn_q_(h), attn_q_norm_);  // [T, H, D]
  Tensor k = heads(attn_k_(h), attn_k_norm_);  // [T, G, D]
  const Tensor v = heads(attn_v_(h), {});      // [T, G, D]
  if (kind_.rotated) {
    q = rope(q, places.positions, rope_.inverse_frequencies, rope_.options);
    k = rope(k, places.positions, rope_.inverse_frequencies, rope_.options);
  }
  const KvLayer cache = kv_write(at.cache.layer(at.layer), k, v, places);
  Tensor mixed = attention(q, cache, places,
                           {.scale = config_.attention_scale,
                            .window = kind_.window,
                            .softcap = config_.attention_softcap,
                            .sinks = attn_sinks_});
  mixed = reshape(mixed, Shape{h.shape()[0], mixed.shape()[1] * mixed.shape()[2]});  // [T, H·D]
  return attn_output_(at.rows.defined() ? gather(mixed, at.rows) : mixed);
}

}  // namespace gabbro::llm
