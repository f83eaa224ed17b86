#include "src/models/encoder/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/products.h"

namespace gabbro::encoder {

std::vector<float> alibi_slopes(int64_t heads, float largest_exponent) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const double step = largest_exponent / static_cast<double>(power);
  std::vector<float> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    const double exponent =
        h < power ? step * static_cast<double>(h + 1) : step / 2 * static_cast<double>(2 * (h - power) + 1);
    slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

int32_t distance_bucket(int64_t distance, const BucketConfig& config) {
  int64_t buckets = config.count, bucket = 0, far = std::max<int64_t>(0, -distance);
  if (config.both_directions) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    far = std::abs(distance);
  }
  const int64_t exact = buckets / 2;
  if (far < exact) return static_cast<int32_t>(bucket + far);
  // In f32, as the models were trained.
  const float ratio = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(config.farthest) / static_cast<double>(exact)));
  const auto grown = exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
  return static_cast<int32_t>(bucket + std::min(grown, buckets - 1));
}

Tensor biases_of_distances(const Tensor& table, const BucketConfig& config, int64_t longest) {
  std::vector<int32_t> buckets;
  for (int64_t distance = 1 - longest; distance < longest; ++distance)
    buckets.push_back(distance_bucket(distance, config));
  return embedding(table, table.device()->upload(DType::i32, Shape{std::ssize(buckets)}, buckets.data()));
}

Encoder::Encoder(EncoderConfig config, WeightSource& weights) : config_(std::move(config)) {
  const ModelShape& s = config_.shape;
  const auto frequencies_of = [&](const ModelRope& rope) {
    const nn::RopeFrequencies frequencies = nn::rope_frequencies(rope, rope.divisors);
    return Rope{.options = {.interleaved = rope.interleaved, .magnitude = frequencies.magnitude},
                .inverse_frequencies = weights.upload(frequencies.inverse)};
  };
  if (config_.rotated) rope_ = frequencies_of(config_.rope);
  if (config_.local_rope) local_rope_ = frequencies_of(*config_.local_rope);
  if (config_.bias == DistanceBias::kAlibi)
    slopes_ = weights.upload(alibi_slopes(s.heads, config_.largest_alibi_exponent));
  load_embeddings(weights);
  for (int64_t i = 0; i < s.layers; ++i) layers_.push_back(load_layer(weights, i));
  if (config_.final_norm) output_norm_ = load_norm(weights, config_.output_norm_name, s.embedding);
  if (config_.projection > 0) projection_ = weights.linear("projection", {config_.projection, s.embedding});
  load_head(weights);
}

Encoder::Norm Encoder::load_norm(WeightSource& weights, const std::string& name, int64_t length) const {
  Norm norm{.weight = weights.vector(name + ".weight", length)};
  if (config_.norm == NormKind::kLayer && weights.has(name + ".bias"))
    norm.bias = weights.vector(name + ".bias", length);
  return norm;
}

void Encoder::load_embeddings(WeightSource& weights) {
  const ModelShape& s = config_.shape;
  token_embd_ = weights.matrix("token_embd.weight", {s.vocabulary, s.embedding});
  if (config_.learned_positions) {
    position_embd_ = weights.matrix("position_embd.weight", {s.context_trained, s.embedding},
                                    {.skipped_rows = config_.position_offset});
  }
  if (config_.token_types > 0) token_types_ = weights.matrix("token_types.weight", {config_.token_types, s.embedding});
  if (config_.embedding_norm) token_embd_norm_ = load_norm(weights, "token_embd_norm", s.embedding);
  if (config_.bias == DistanceBias::kBuckets) {
    const std::string name = (config_.bias_in_layer ? config_.layer_prefix + "0." : "") + config_.bias_name;
    bias_buckets_ = weights.tensor(name + ".weight", {config_.buckets.count, s.heads});
  }
}

Encoder::Layer Encoder::load_layer(WeightSource& weights, int64_t index) const {
  const ModelShape& s = config_.shape;
  const std::string prefix = fmt::format("{}{}.", config_.layer_prefix, index);
  const bool first = config_.norm_first;
  Layer layer{.kind = config_.layers[static_cast<size_t>(index)]};
  if (first && (index > 0 || config_.first_layer_norm))
    layer.attn_norm = load_norm(weights, prefix + "attn_norm", s.embedding);
  load_attention(weights, prefix, layer);
  if (!first) layer.attn_output_norm = load_norm(weights, prefix + "attn_output_norm", s.embedding);
  if (first) layer.ffn_norm = load_norm(weights, prefix + "ffn_norm", s.embedding);
  const int64_t every = config_.experts_every;
  if (every > 0 && index % every == 1) {
    layer.experts = std::make_shared<const EncoderExperts>(config_, weights, prefix);
  } else {
    load_feed_forward(weights, prefix, layer);
  }
  if (!first) layer.layer_output_norm = load_norm(weights, prefix + "layer_output_norm", s.embedding);
  return layer;
}

void Encoder::load_attention(WeightSource& weights, const std::string& prefix, Layer& layer) const {
  const ModelShape& s = config_.shape;
  const int64_t q_width = s.heads * s.head_dimension, kv_width = s.kv_heads * s.head_dimension;
  if (weights.has(prefix + "attn_qkv.weight")) {
    const auto rows = [&](int64_t first, int64_t count) {
      return weights.linear(prefix + "attn_qkv",
                            {.rows = q_width + 2 * kv_width, .columns = s.embedding, .row_range = {first, count}});
    };
    layer.attn_q = rows(0, q_width);
    layer.attn_k = rows(q_width, kv_width);
    layer.attn_v = rows(q_width + kv_width, kv_width);
  } else {
    layer.attn_q = weights.linear(prefix + "attn_q", {q_width, s.embedding});
    layer.attn_k = weights.linear(prefix + "attn_k", {kv_width, s.embedding});
    layer.attn_v = weights.linear(prefix + "attn_v", {kv_width, s.embedding});
  }
  if (config_.qk_norm != QkNorm::kNone) {
    const bool of_all = config_.qk_norm == QkNorm::kAllHeads;
    layer.attn_q_norm = load_norm(weights, prefix + "attn_q_norm", of_all ? q_width : s.head_dimension);
    layer.attn_k_norm = load_norm(weights, prefix + "attn_k_norm", of_all ? kv_width : s.head_dimension);
  }
  layer.attn_output = weights.linear(prefix + config_.attn_output_name, {s.embedding, q_width});
}

void Encoder::load_feed_forward(WeightSource& weights, const std::string& prefix, Layer& layer) const {
  const ModelShape& s = config_.shape;
  const int64_t f = s.feed_forward;
  if (!config_.gated) {
    layer.ffn_up = weights.linear(prefix + "ffn_up", {f, s.embedding});
  } else if (weights.has(prefix + "ffn_gate.weight")) {
    layer.ffn_gate = weights.linear(prefix + "ffn_gate", {f, s.embedding});
    layer.ffn_up = weights.linear(prefix + "ffn_up", {f, s.embedding});
  } else {  // both in one matrix, the gate first
    layer.ffn_gate = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .row_range = {0, f}});
    layer.ffn_up = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .row_range = {f, f}});
  }
  layer.ffn_down = weights.linear(prefix + "ffn_down", {s.embedding, f});
}

void Encoder::load_head(WeightSource& weights) {
  const int64_t labels = config_.head.labels, c = config_.shape.embedding;
  if (config_.answers && labels == 0 && weights.has("output.weight"))
    output_ = weights.linear("output", {config_.shape.vocabulary, c});
  if (labels == 0) return;
  if (weights.has("cls.weight")) cls_ = weights.linear("cls", {c, c});
  if (weights.has("cls.norm.weight")) cls_norm_ = load_norm(weights, "cls.norm", c);
  cls_output_ = weights.linear("cls.output", {labels, c});
}

Tensor Encoder::normalized(const Norm& norm, const Tensor& x) const {
  if (!norm.weight.defined()) return x;
  return config_.norm == NormKind::kRms ? rms_norm(x, norm.weight, config_.norm_epsilon)
                                        : layer_norm(x, norm.weight, norm.bias, config_.norm_epsilon);
}

// [T, n·D] -> [T, n, D]
Tensor Encoder::heads(const Tensor& x, const Norm& norm) const {
  const int64_t d = config_.shape.head_dimension;
  const Shape shape{x.shape()[0], x.shape()[1] / d, d};
  return config_.qk_norm == QkNorm::kAllHeads ? reshape(normalized(norm, x), shape)
                                              : normalized(norm, reshape(x, shape));
}

nn::Linear* Encoder::find_linear(int64_t index, std::string_view name) const {
  if (index < 0 || index >= std::ssize(layers_)) return nullptr;
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const std::pair<std::string_view, const std::shared_ptr<nn::Linear>&> all[] = {
      {"attn_q", layer.attn_q},           {"attn_k", layer.attn_k}, {"attn_v", layer.attn_v},
      {"attn_output", layer.attn_output}, {"ffn_up", layer.ffn_up}, {"ffn_down", layer.ffn_down}};
  for (const auto& [known, linear] : all) {
    if (known == name) return linear.get();
  }
  return nullptr;
}

Tensor Encoder::embed_tokens(const Tensor& ids) const { return embedding(token_embd_, ids); }

Tensor Encoder::embed(const EncoderBatch& batch, const Tensor& embedded_tokens) const {
  Tensor x = embedded_tokens.defined() ? embedded_tokens : embed_tokens(batch.ids);  // [T, C]
  if (token_types_.defined()) x = x + embedding(token_types_, batch.types);
  if (position_embd_.defined()) x = x + embedding(position_embd_, batch.positions);
  return normalized(token_embd_norm_, x);
}

EncoderAttention Encoder::attention_of(const EncoderBatch& batch) const {
  EncoderAttention attention{.scale = config_.attention_scale, .causal = config_.causal, .slopes = slopes_};
  if (bias_buckets_.defined())
    attention.distance_bias = biases_of_distances(bias_buckets_, config_.buckets, batch.longest);
  return attention;
}

Tensor Encoder::feed_forward(const Layer& w, const Tensor& h) const {
  if (w.experts != nullptr) return (*w.experts)(h);
  const auto f = [&](const Tensor& x) { return llm::activated(config_.activation, x); };
  return (*w.ffn_down)(config_.gated ? f((*w.ffn_gate)(h)) * (*w.ffn_up)(h) : f((*w.ffn_up)(h)));
}

// Either the norms before the blocks or those after the sums are there.
Tensor Encoder::layer(const Layer& w, const Tensor& x, const EncoderBatch& batch,
                      EncoderAttention attention) const {  // x [T, C]
  const Tensor h = normalized(w.attn_norm, x);
  Tensor q = heads((*w.attn_q)(h), w.attn_q_norm);  // [T, H, D]
  Tensor k = heads((*w.attn_k)(h), w.attn_k_norm);  // [T, G, D]
  const Tensor v = heads((*w.attn_v)(h), {});       // [T, G, D]
  if (config_.rotated) {
    const Rope& turns = w.kind.local_rope ? local_rope_ : rope_;
    q = rope(q, batch.positions, turns.inverse_frequencies, turns.options);
    k = rope(k, batch.positions, turns.inverse_frequencies, turns.options);
  }
  attention.window = w.kind.window;
  const Tensor mixed = attend(batch, q, k, v, attention);  // [T, H·D]
  const Tensor stream = normalized(w.attn_output_norm, x + (*w.attn_output)(mixed));
  return normalized(w.layer_output_norm, stream + feed_forward(w, normalized(w.ffn_norm, stream)));
}

Tensor Encoder::forward(const EncoderBatch& batch, const ForwardOptions& options) const {
  // The masks of long texts are large: layer by layer they are made again instead of kept for all layers.
  const bool by_layer = query_chunk(batch, config_.shape.heads) < batch.longest;
  Tensor x = embed(batch, options.embedded_tokens);
  const EncoderAttention attention = attention_of(batch);
  const size_t count = options.layers > 0 ? static_cast<size_t>(options.layers) : layers_.size();
  if (count > layers_.size()) throw std::logic_error("the encoder has fewer layers");
  for (size_t i = 0; i < count; ++i) {
    x = layer(layers_[i], x, batch, attention);
    if (by_layer) eval(std::span(&x, 1), options.cancel);
    if (options.inner != nullptr && std::cmp_equal(i + 1, options.inner_layers)) *options.inner = x;
  }
  return count == layers_.size() || options.norms_fewer ? normalized(output_norm_, x) : x;
}

namespace {

// Sums of a text's states by weights [B, T]: a mean over its tokens after the first `skipped`.
Tensor mean_of_texts(const EncoderBatch& batch, const Tensor& states, bool with_prompt) {
  std::vector<float> weights(static_cast<size_t>(batch.texts() * batch.tokens), 0.0f);
  int64_t first = 0;
  for (size_t i = 0; i < batch.lengths.size(); ++i) {
    const int64_t skipped = with_prompt ? 0 : std::min(batch.prompts[i], batch.lengths[i] - 1);
    const int64_t count = batch.lengths[i] - skipped;
    std::fill_n(weights.begin() + static_cast<int64_t>(i) * batch.tokens + first + skipped, count,
                1.0f / static_cast<float>(count));
    first += batch.lengths[i];
  }
  const Tensor of_tokens = states.device()->upload(DType::f32, Shape{batch.texts(), batch.tokens}, weights.data());
  return matmul(of_tokens, states);
}

Tensor max_of_texts(const EncoderBatch& batch, const Tensor& states) {
  const Tensor cells = batch.grid.defined() ? gather(states, batch.grid) : states;
  const Tensor of_texts = reshape(cells, Shape{batch.texts(), batch.longest, states.shape()[1]});
  return max(of_texts, {1});  // empty cells hold the text's first token
}

Tensor token_of_texts(const EncoderBatch& batch, const Tensor& states, bool last) {
  std::vector<int32_t> rows;
  int64_t first = 0;
  for (const int64_t length : batch.lengths) {
    rows.push_back(static_cast<int32_t>(last ? first + length - 1 : first));
    first += length;
  }
  return gather(states, states.device()->upload(DType::i32, Shape{std::ssize(rows)}, rows.data()));
}

}  // namespace

Tensor Encoder::pooled(const EncoderBatch& batch, const Tensor& states, Pooling pooling, bool with_prompt) const {
  if (pooling == Pooling::kRank) pooling = config_.head.pooling;
  Tensor x;  // [B, C]
  switch (pooling) {
    case Pooling::kMean:
      x = mean_of_texts(batch, states, with_prompt);
      break;
    case Pooling::kMax:
      x = max_of_texts(batch, states);
      break;
    case Pooling::kCls:
    case Pooling::kLast:
      x = token_of_texts(batch, states, pooling == Pooling::kLast);
      break;
    case Pooling::kNone:
    case Pooling::kRank:
      throw std::logic_error("no pooling");
  }
  return projected(x);
}

Tensor Encoder::projected(const Tensor& states) const {
  return projection_ != nullptr ? (*projection_)(states) : states;
}

void Encoder::classify_by(std::span<const int32_t> tokens) {
  const Tensor ids = token_embd_.device()->upload(DType::i32, Shape{std::ssize(tokens)}, tokens.data());
  Tensor rows = embedding(output_ != nullptr ? output_->weight : token_embd_, ids);  // [labels, C]
  eval(std::span(&rows, 1));
  cls_output_ = std::make_shared<nn::Linear>(rows);
}

Tensor Encoder::scores(const Tensor& pooled) const {
  const Tensor x = cls_ != nullptr ? llm::activated(config_.head.activation, (*cls_)(pooled)) : pooled;
  return (*cls_output_)(normalized(cls_norm_, x));
}

}  // namespace gabbro::encoder
