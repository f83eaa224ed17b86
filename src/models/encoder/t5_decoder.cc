#include "src/models/encoder/t5_decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "gabbro/ops/products.h"
#include "src/base/error.h"
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {

T5Decoder::T5Decoder(EncoderConfig config, bool scaled, WeightSource& weights)
    : config_(std::move(config)), scaled_(scaled) {
  const ModelShape& s = config_.shape;
  config_.buckets.both_directions = false;
  token_embd_ = weights.matrix("token_embd.weight", {s.vocabulary, s.embedding});
  bias_buckets_ = weights.matrix_f32("dec.blk.0.attn_rel_b.weight", {config_.buckets.count, s.heads});
  for (int64_t i = 0; i < s.layers; ++i) layers_.push_back(load_layer(weights, i));
  output_norm_ = weights.vector("dec.output_norm.weight", s.embedding);
  if (weights.has("output.weight")) {
    output_ = weights.linear("output", {s.vocabulary, s.embedding});
  } else {
    output_.weight = token_embd_;
  }
}

T5Decoder::Attention T5Decoder::load_attention(WeightSource& weights, const std::string& prefix) const {
  const int64_t c = config_.shape.embedding, width = config_.shape.heads * config_.shape.head_dimension;
  return {.norm = weights.vector(prefix + "_norm.weight", c),
          .q = weights.linear(prefix + "_q", {width, c}),
          .k = weights.linear(prefix + "_k", {width, c}),
          .v = weights.linear(prefix + "_v", {width, c}),
          .o = weights.linear(prefix + "_o", {c, width})};
}

T5Decoder::Layer T5Decoder::load_layer(WeightSource& weights, int64_t index) const {
  const int64_t c = config_.shape.embedding, f = config_.shape.feed_forward;
  const std::string prefix = fmt::format("dec.blk.{}.", index);
  Layer layer{.own = load_attention(weights, prefix + "attn"), .cross = load_attention(weights, prefix + "cross_attn")};
  layer.ffn_norm = weights.vector(prefix + "ffn_norm.weight", c);
  if (config_.gated) layer.ffn_gate = weights.linear(prefix + "ffn_gate", {f, c});
  layer.ffn_up = weights.linear(prefix + "ffn_up", {f, c});
  layer.ffn_down = weights.linear(prefix + "ffn_down", {c, f});
  return layer;
}

Tensor T5Decoder::heads(const Tensor& x) const {
  return reshape(x, Shape{x.shape()[0], config_.shape.heads, config_.shape.head_dimension});
}

// Each token attends to all of the encoder's states: x [T, C], states [S, C] -> [T, C].
Tensor T5Decoder::attend_to_text(const Attention& w, const Tensor& x, const Tensor& states) const {
  const auto by_head = [](const Tensor& rows) { return permute(rows, {1, 0, 2}); };  // [n, H, D] -> [H, n, D]
  const Tensor mixed = scaled_dot_product_attention(by_head(heads(w.q(x))), by_head(heads(w.k(states))),
                                                    by_head(heads(w.v(states))), {.scale = 1.0});  // [H, T, D]
  return w.o(reshape(permute(mixed, {1, 0, 2}), Shape{x.shape()[0], mixed.shape()[0] * mixed.shape()[2]}));
}

Tensor T5Decoder::layer(const Layer& w, Tensor x, const EncoderBatch& batch, const EncoderAttention& bias,
                        const Tensor& states) const {  // x [T, C]
  const auto norm = [&](const Tensor& weight, const Tensor& of) { return rms_norm(of, weight, config_.norm_epsilon); };
  Tensor h = norm(w.own.norm, x);
  x = x + w.own.o(attend(batch, heads(w.own.q(h)), heads(w.own.k(h)), heads(w.own.v(h)), bias));
  x = x + attend_to_text(w.cross, norm(w.cross.norm, x), states);
  h = norm(w.ffn_norm, x);
  const auto f = [&](const Tensor& of) { return llm::activated(config_.activation, of); };
  return x + w.ffn_down(config_.gated ? f(w.ffn_gate(h)) * w.ffn_up(h) : f(w.ffn_up(h)));
}

Tensor T5Decoder::forward(const EncoderBatch& batch, const Tensor& states) const {
  EncoderAttention bias{.scale = 1, .causal = true};
  bias.distance_bias = biases_of_distances(bias_buckets_, config_.buckets, batch.longest);
  Tensor x = embedding(token_embd_, batch.ids);  // [T, C]
  for (const Layer& w : layers_) x = layer(w, x, batch, bias, states);
  x = rms_norm(x, output_norm_, config_.norm_epsilon);
  if (scaled_) x = x * scalar(x.device(), 1 / std::sqrt(static_cast<double>(config_.shape.embedding)));
  return output_(x);
}

T5Model load_t5(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                const llm::LoadModelOptions& options) {
  const Family& family = family_of(checkpoint);
  const ConfigReader fields(checkpoint);
  constexpr FieldName kDecoderLayers{"decoder_block_count", "num_decoder_layers"};
  constexpr FieldName kStart{"decoder_start_token_id", "decoder_start_token_id"};
  if (!llm::has_weight(family.names, checkpoint, "dec.output_norm.weight"))
    throw bad_input("{}: the model has no decoder", checkpoint.path());
  EncoderConfig config = family.read_config(checkpoint);
  llm::CheckpointWeights weights(checkpoint, family.names, device, options);
  T5Model model{.encoder = std::make_unique<Encoder>(config, weights)};
  config.shape.layers = fields.size_or(kDecoderLayers, config.shape.layers, 1, 1 << 12);
  // T5 1.0 alone, whose head is tied. Recent files say it, others by the tie.
  constexpr FieldName kScaled{nullptr, "scale_decoder_outputs"}, kTied{nullptr, "tie_word_embeddings"};
  const bool tied = !llm::has_weight(family.names, checkpoint, "output.weight");
  const bool scaled = fields.flag_or(kScaled, fields.flag_or(kTied, true) && tied);
  model.decoder = std::make_unique<T5Decoder>(config, scaled, weights);
  model.start_token = static_cast<int32_t>(fields.size_or(kStart, 0, 0, config.shape.vocabulary - 1));
  return model;
}

}  // namespace gabbro::encoder
