#include "src/models/llm/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::llm {
namespace {

// The divisors of the rotary frequencies: Llama 3's table, or LongRoPE's for contexts that are longer than the original
// one, or not. As in llama.cpp, the context that may be used decides, not what is in it.
std::vector<float> rope_divisors(const Checkpoint& checkpoint, WeightSource& weights, const ModelRope& rope,
                                 int64_t context) {
  bool extended = rope.scaling == nn::RopeScaling::kLongRope && context > rope.original_context;
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) return extended ? rope.long_divisors : rope.divisors;
  std::string name = "rope_freqs.weight";
  // Files of Phi 3 have the tables, and do not name the method.
  if (rope.scaling == nn::RopeScaling::kLongRope || weights.has("rope_factors_short.weight")) {
    extended = context > rope.original_context;
    name = extended ? "rope_factors_long.weight" : "rope_factors_short.weight";
  } else if (!weights.has(name)) {
    return {};
  }
  std::vector<float> divisors = weights.host_vector(name, rope.dimensions / 2);
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor <= 0; }))
    throw bad_input("{}: tensor '{}' has values that are not above 0; the file is damaged", checkpoint.path(), name);
  return divisors;
}

Tensor scaled(const Tensor& x, float factor) { return factor == 1 ? x : x * scalar(x.device(), factor); }

Tensor softcapped(const Tensor& x, float cap) { return cap == 0 ? x : scaled(tanh(scaled(x, 1 / cap)), cap); }

}  // namespace

Decoder::Decoder(DecoderConfig config, const Checkpoint& checkpoint, WeightSource& weights, int64_t context)
    : config_(std::move(config)) {
  const ModelShape& s = config_.shape;
  const auto frequencies_of = [&](const ModelRope& rope, const std::vector<float>& divisors) {
    const nn::RopeFrequencies frequencies = nn::rope_frequencies(rope, divisors);
    return Rope{.options = {.interleaved = rope.interleaved, .magnitude = frequencies.magnitude},
                .inverse_frequencies = weights.upload(frequencies.inverse)};
  };
  const auto rotates = [](const LayerKind& kind) { return kind.rotated; };
  if (std::ranges::any_of(config_.layers, rotates))
    rope_ = frequencies_of(config_.rope, rope_divisors(checkpoint, weights, config_.rope, context));
  if (config_.local_rope) local_rope_ = frequencies_of(*config_.local_rope, config_.local_rope->divisors);

  token_embd_ = weights.matrix("token_embd.weight", {s.vocabulary, s.embedding});
  if (config_.learned_positions)
    position_embd_ = weights.matrix("position_embd.weight", {s.context_trained, s.embedding});
  for (int64_t i = 0; i < s.layers; ++i) layers_.push_back(load_layer(weights, i));
  output_norm_ = load_norm(weights, "output_norm", s.embedding);
  if (weights.has("output.weight")) {
    output_ = weights.linear("output", {s.vocabulary, s.embedding});
  } else {
    output_.weight = token_embd_;
  }
}

Decoder::Norm Decoder::load_norm(WeightSource& weights, const std::string& name, int64_t length) const {
  const TransformersLayout theirs{.offset = config_.norm_offset};
  Norm norm{.weight = weights.vector(name + ".weight", length, theirs)};
  if (config_.norm == NormKind::kLayer && weights.has(name + ".bias"))
    norm.bias = weights.vector(name + ".bias", length);
  return norm;
}

Decoder::Layer Decoder::load_layer(WeightSource& weights, int64_t index) const {
  const ModelShape& s = config_.shape;
  const std::string prefix = fmt::format("blk.{}.", index);
  const bool before = config_.norm_placement != NormPlacement::kAfter;
  const bool after = config_.norm_placement != NormPlacement::kBefore;
  Layer layer{.kind = config_.layers[static_cast<size_t>(index)]};
  if (before) layer.attn_norm = load_norm(weights, prefix + config_.attn_norm_name, s.embedding);
  load_attention(weights, prefix, layer);
  if (after) layer.post_attention_norm = load_norm(weights, prefix + "post_attention_norm", s.embedding);
  if (before && !config_.shared_norm) layer.ffn_norm = load_norm(weights, prefix + config_.ffn_norm_name, s.embedding);
  load_feed_forward(weights, prefix, layer);
  if (after) layer.post_ffw_norm = load_norm(weights, prefix + "post_ffw_norm", s.embedding);
  return layer;
}

void Decoder::load_attention(WeightSource& weights, const std::string& prefix, Layer& layer) const {
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
    layer.attn_q = rows(0, q_width);
    layer.attn_k = rows(q_width, kv_width);
    layer.attn_v = rows(q_width + kv_width, kv_width);
  } else {
    const TransformersLayout theirs =
        config_.paired_heads ? paired_rows(s.head_dimension, config_.rope.dimensions) : TransformersLayout{};
    layer.attn_q = weights.linear(prefix + "attn_q", {q_width, s.embedding}, theirs);
    layer.attn_k = weights.linear(prefix + "attn_k", {kv_width, s.embedding}, theirs);
    layer.attn_v = weights.linear(prefix + "attn_v", {kv_width, s.embedding});
  }
  if (config_.qk_norm != QkNorm::kNone) {
    const bool of_all = config_.qk_norm == QkNorm::kAllHeads;
    layer.attn_q_norm = load_norm(weights, prefix + "attn_q_norm", of_all ? q_width : s.head_dimension);
    layer.attn_k_norm = load_norm(weights, prefix + "attn_k_norm", of_all ? kv_width : s.head_dimension);
  }
  layer.attn_output =
      weights.linear(prefix + "attn_output", {s.embedding, q_width}, {.transposed = config_.transposed_linears});
}

void Decoder::load_feed_forward(WeightSource& weights, const std::string& prefix, Layer& layer) const {
  const ModelShape& s = config_.shape;
  const TransformersLayout theirs{.transposed = config_.transposed_linears};
  if (Mixture::is_in(config_, weights, prefix)) {
    layer.mixture = std::make_shared<Mixture>(config_, weights, prefix);
    return;
  }
  if (!config_.gated) {
    layer.ffn_up = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, theirs);
  } else if (weights.has(prefix + "ffn_gate.weight")) {
    layer.ffn_gate = weights.linear(prefix + "ffn_gate", {s.feed_forward, s.embedding}, theirs);
    layer.ffn_up = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, theirs);
  } else {  // both in one matrix, the gate first
    const int64_t f = s.feed_forward;
    layer.ffn_gate = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .count = f}, theirs);
    layer.ffn_up =
        weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .first = f, .count = f}, theirs);
  }
  layer.ffn_down = weights.linear(prefix + "ffn_down", {s.embedding, s.feed_forward}, theirs);
}

Tensor Decoder::normalized(const Norm& norm, const Tensor& x) const {
  if (!norm.weight.defined()) return x;
  return config_.norm == NormKind::kRms ? rms_norm(x, norm.weight, config_.norm_epsilon)
                                        : layer_norm(x, norm.weight, norm.bias, config_.norm_epsilon);
}

// [T, n·D] -> [T, n, D]
Tensor Decoder::heads(const Tensor& x, const Norm& norm) const {
  const int64_t d = config_.shape.head_dimension;
  const Shape shape{x.shape()[0], x.shape()[1] / d, d};
  return config_.qk_norm == QkNorm::kAllHeads ? reshape(normalized(norm, x), shape)
                                              : normalized(norm, reshape(x, shape));
}

Tensor Decoder::attend(const Layer& w, const Tensor& h, const Step& step, KvLayer cache) const {
  Tensor q = heads(w.attn_q(h), w.attn_q_norm);  // [T, H, D]
  Tensor k = heads(w.attn_k(h), w.attn_k_norm);  // [T, G, D]
  const Tensor v = heads(w.attn_v(h), {});       // [T, G, D]
  if (w.kind.rotated) {
    const Rope& turns = w.kind.local_rope ? local_rope_ : rope_;
    q = rope(q, step.places.positions, turns.inverse_frequencies, turns.options);
    k = rope(k, step.places.positions, turns.inverse_frequencies, turns.options);
  }
  cache = kv_write(cache, k, v, step.places);
  const Tensor mixed =
      attention(q, cache, step.places,
                {.scale = config_.attention_scale, .window = w.kind.window, .softcap = config_.attention_softcap});
  return reshape(mixed, Shape{h.shape()[0], mixed.shape()[1] * mixed.shape()[2]});  // [T, H·D]
}

Tensor Decoder::feed_forward(const Layer& w, const Tensor& h) const {
  if (w.mixture) return (*w.mixture)(h);
  const auto f = [&](const Tensor& x) { return activated(config_.activation, x); };
  return w.ffn_down(config_.gated ? f(w.ffn_gate(h)) * w.ffn_up(h) : f(w.ffn_up(h)));
}

// `rows`, where given, are the tokens that are wanted from here on: i32 [R].
Tensor Decoder::layer(const Layer& w, Tensor x, const Step& step, KvLayer cache,
                      const Tensor& rows) const {  // x [T, C]
  Tensor h = normalized(w.attn_norm, x);
  Tensor mixed = attend(w, h, step, std::move(cache));
  if (rows.defined()) {
    mixed = gather(mixed, rows);
    x = gather(x, rows);
    if (config_.shared_norm) h = gather(h, rows);
  }
  const Tensor update = scaled(normalized(w.post_attention_norm, w.attn_output(mixed)), config_.residual_scale);
  const Tensor stream = config_.parallel ? x : x + update;
  if (!config_.shared_norm) h = normalized(w.ffn_norm, stream);
  const Tensor added = scaled(normalized(w.post_ffw_norm, feed_forward(w, h)), config_.residual_scale);
  return config_.parallel ? stream + update + added : stream + added;
}

std::vector<nn::CacheLayer> Decoder::cache_spec() const {
  std::vector<nn::CacheLayer> layers;
  for (const LayerKind& kind : config_.layers) {
    layers.push_back(
        {.heads = config_.shape.kv_heads, .dimension = config_.shape.head_dimension, .window = kind.window});
  }
  return layers;
}

Tensor Decoder::embed(const Step& step) const {
  const Tensor x = scaled(embedding(token_embd_, step.ids), config_.embedding_scale);  // [T, C]
  return config_.learned_positions ? x + embedding(position_embd_, step.places.positions) : x;
}

Tensor Decoder::layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const {
  const bool last = index + 1 == config_.shape.layers;  // what follows its attention is needed for wanted tokens alone
  const auto i = static_cast<size_t>(index);
  return layer(layers_[i], x, step, cache.layer(i), last ? step.output_rows : Tensor());
}

Tensor Decoder::head(const Tensor& x) const {
  const Tensor logits = output_(normalized(output_norm_, x));  // [R, V]
  return softcapped(scaled(logits, config_.logit_scale), config_.logit_softcap);
}

Tensor Decoder::forward(const Step& step, const nn::KvCache& cache) const {
  Tensor x = embed(step);
  for (int64_t i = 0; i < config_.shape.layers; ++i) x = layer(i, x, step, cache);
  return head(x);
}

}  // namespace gabbro::llm
