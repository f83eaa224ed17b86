#include "src/models/llm/self_attention.h"

#include "src/base/error.h"

namespace gabbro::llm {

SelfAttention::SelfAttention(const DecoderConfig& config, const LayerKind& kind, Rope rope, WeightSource& weights,
                             const std::string& prefix)
    : config_(config), kind_(kind), shard_(weights.shard()), rope_(std::move(rope)) {
  const ModelShape& s = config_.shape;
  part_ = shard_ != nullptr ? shard_->part_of_heads(s.heads, s.kv_heads)
                            : HeadRange{.heads = {0, s.heads}, .kv_heads = {0, s.kv_heads}};
  const int64_t q_width = s.heads * s.head_dimension, kv_width = s.kv_heads * s.head_dimension;
  if (weights.has(prefix + "attn_qkv.weight") && !weights.has(prefix + "attn_q.weight")) {
    TransformersLayout theirs = config_.fused_rows;
    theirs.transposed = config_.transposed_linears;
    const auto rows = [&](int64_t first, int64_t count) {
      return weights.linear(prefix + "attn_qkv",
                            {.rows = q_width + 2 * kv_width, .columns = s.embedding, .row_range = {first, count}},
                            theirs);
    };
    attn_q_ = rows(0, q_width);
    attn_k_ = rows(q_width, kv_width);
    attn_v_ = rows(q_width + kv_width, kv_width);
  } else {
    const TransformersLayout theirs =
        config_.paired_heads ? paired_rows(s.head_dimension, config_.rope.dimensions) : TransformersLayout{};
    const MatrixFactors& f = config_.factors;
    const int64_t q_rows = config_.gated_attention ? 2 * q_width : q_width;
    attn_q_ = weights.linear(prefix + "attn_q", {q_rows, s.embedding}, with_factor(f.attn_q, theirs));
    attn_k_ = weights.linear(prefix + "attn_k", {kv_width, s.embedding}, with_factor(f.attn_k, theirs));
    attn_v_ = weights.linear(prefix + "attn_v", {kv_width, s.embedding}, with_factor(f.attn_v));
  }
  load_qk_norms(weights, prefix);
  if (config_.attention_sinks) attn_sinks_ = weights.vector(prefix + "attn_sinks.weight", s.heads);
  if (config_.alibi != 0) biases_.emplace(config_, weights, part_);
  attn_output_ = weights.linear(prefix + "attn_output", {s.embedding, q_width},
                                with_factor(config_.factors.attn_output, {.transposed = config_.transposed_linears}));
}

nn::CacheLayer SelfAttention::cache() const {
  const int64_t d = config_.shape.head_dimension;
  return {
      .heads = part_.kv_heads.count, .dimension = biases_ ? LinearBiases::dimension(d) : d, .window = kind_.reach()};
}

void SelfAttention::load_qk_norms(WeightSource& weights, const std::string& prefix) {
  const int64_t d = config_.shape.head_dimension;
  const auto load = [&](const std::string& name, int64_t heads) -> Norm {
    if (config_.qk_norm == QkNorm::kEachHead)
      return {.weight = weights.tensor(name + ".weight", {heads, d}, {.stacked = config_.stacked_norms}), .bias = {}};
    return load_norm(config_, weights, name, config_.qk_norm == QkNorm::kAllHeads ? heads * d : d);
  };
  if (config_.qk_norm == QkNorm::kEachHead || config_.qk_norm == QkNorm::kUnweighted)
    ones_ = weights.upload(std::vector<float>(static_cast<size_t>(d), 1.0f));
  if (config_.qk_norm == QkNorm::kNone || config_.qk_norm == QkNorm::kUnweighted) return;
  if (config_.qk_norm == QkNorm::kAllHeads && shard_ != nullptr && config_.norm != NormKind::kRms)
    throw bad_input("{}attn_q_norm: a layer norm over the heads of several devices is not supported", prefix);
  attn_q_norm_ = load(prefix + "attn_q_norm", config_.shape.heads);
  attn_k_norm_ = load(prefix + "attn_k_norm", config_.shape.kv_heads);
}

// [T, n·D] -> [T, n, D]
Tensor SelfAttention::heads(const Tensor& x) const {
  const int64_t d = config_.shape.head_dimension;
  return reshape(x, Shape{x.shape()[0], x.shape()[1] / d, d});
}

Tensor SelfAttention::with_norm(const Tensor& x, const Norm& norm) const {  // x [T, n, D]
  switch (config_.qk_norm) {
    case QkNorm::kNone:
      return x;
    case QkNorm::kHead:
      return normalized(config_, norm, x);
    case QkNorm::kEachHead:
      return normalized(config_, {.weight = ones_, .bias = {}}, x) * norm.weight;
    case QkNorm::kUnweighted:
      return kind_.rotated ? normalized(config_, {.weight = ones_, .bias = {}}, x) : x;
    case QkNorm::kAllHeads:
      break;
  }
  const Shape shape = x.shape();
  return reshape(normalized(config_, norm, reshape(x, Shape{shape[0], shape[1] * shape[2]})), shape);
}

// Norms over the heads of all devices, q [T, H, D] and k [T, G, D], by the sums of squares of each; v is read
// afterward.
void SelfAttention::normalize_over_devices(Tensor& q, Tensor& k, const Tensor& v) const {
  const ModelShape& s = config_.shape;
  const int64_t tokens = q.shape()[0];
  const auto squares = [&](const Tensor& x) { return reshape(sum(square(x), {1, 2}), Shape{tokens, 1}); };
  // The first device of those that have the same KV head counts it.
  const bool counts = part_.heads.first % (s.heads / s.kv_heads) == 0;
  const Tensor of_keys = counts ? squares(k) : squares(k) * scalar(k.device(), 0);
  const Tensor needed[] = {q, k, v};
  const Tensor sums = (*shard_->sum)(concat({squares(q), of_keys}, 1), needed);  // [T, 2]
  const auto normalize = [&](Tensor& x, const Norm& norm, int64_t index, int64_t heads) {
    const double count = static_cast<double>(heads * s.head_dimension);
    const Tensor mean = slice(sums, 1, index, 1) / scalar(x.device(), count);
    const Tensor factors = rsqrt(mean + scalar(x.device(), static_cast<double>(config_.norm_epsilon)));  // [T, 1]
    x = x * reshape(factors, Shape{tokens, 1, 1}) * reshape(norm.weight, Shape{x.shape()[1], s.head_dimension});
  };
  normalize(q, attn_q_norm_, 0, s.heads);
  normalize(k, attn_k_norm_, 1, s.kv_heads);
}

// q [T, H, D], positions i32 [T]
Tensor SelfAttention::tempered(const Tensor& q, const Tensor& positions) const {
  const AttentionTemperature& t = config_.temperature;
  const auto number = [&](double x) { return scalar(q.device(), x); };
  const Tensor at = cast(positions, DType::f32) + number(static_cast<double>(t.offset));
  const Tensor steps = floor(at / number(static_cast<double>(t.length)));
  const Tensor factors = log1p(steps) * number(t.scale) + number(1);  // [T]
  return q * reshape(factors, Shape{q.shape()[0], 1, 1});
}

Tensor SelfAttention::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions places = at.places();
  Tensor q = heads((*attn_q_)(h));  // [T, H, D]
  Tensor gate;                      // the same
  if (config_.gated_attention) {
    const int64_t tokens = q.shape()[0], all = q.shape()[1] / 2, d = q.shape()[2];
    const Tensor both = reshape(q, Shape{tokens, all, 2 * d});
    q = slice(both, 2, 0, d);
    gate = reshape(slice(both, 2, d, d), Shape{tokens, all * d});
  }
  Tensor k = heads((*attn_k_)(h));  // [T, G, D]
  Tensor v = heads((*attn_v_)(h));  // [T, G, D]
  at.step.noted("attn_q", q);
  at.step.noted("attn_k", k);
  at.step.noted("attn_v", v);
  const auto normalize = [&] {
    if (config_.qk_norm == QkNorm::kAllHeads && shard_ != nullptr) return normalize_over_devices(q, k, v);
    q = with_norm(q, attn_q_norm_);
    k = with_norm(k, attn_k_norm_);
  };
  if (!config_.qk_norm_last) normalize();
  if (!config_.qk_norm_last && config_.qk_norm != QkNorm::kNone) {
    at.step.noted("attn_q_norm", q);
    at.step.noted("attn_k_norm", k);
  }
  if (kind_.rotated) {
    q = rope(q, places.positions, rope_.inverse_frequencies, rope_.options);
    k = rope(k, places.positions, rope_.inverse_frequencies, rope_.options);
  }
  if (config_.qk_norm_last) normalize();
  if (kind_.tempered && config_.temperature.scale != 0) q = tempered(q, places.positions);
  if (biases_) {
    q = biases_->with_slopes(q);
    k = biases_->with_positions(k, places.positions);
    v = biases_->padded(v);
  }
  at.step.noted("rope_q", q);
  at.step.noted("rope_k", k);
  const KvLayer& before = at.cache.layer(at.layer);
  const Tensor& copies = at.step.copies.rows;
  const KvLayer cache = copies.defined() ? kv_write(before, gather(k, copies), gather(v, copies), at.copies())
                                         : kv_write(before, k, v, places);
  Tensor mixed = attention(q, cache, places,
                           {.scale = config_.attention_scale,
                            .window = kind_.window,
                            .softcap = config_.attention_softcap,
                            .chunk = kind_.chunk,
                            .sinks = attn_sinks_});
  if (biases_) mixed = slice(mixed, 2, 0, config_.shape.head_dimension);
  mixed = reshape(mixed, Shape{h.shape()[0], mixed.shape()[1] * mixed.shape()[2]});  // [T, H·D]
  if (gate.defined()) mixed = mixed * sigmoid(gate);
  at.step.noted("attention", mixed);
  return (*attn_output_)(at.rows.defined() ? gather(mixed, at.rows) : mixed);
}

}  // namespace gabbro::llm
