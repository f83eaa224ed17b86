// Gemma 3n (text). The stream is several streams: a layer reads one, predicted from all of them, and corrects
// all (AltUp, arXiv 2301.13310). Each layer adds a product of low rank (LAuReL, arXiv 2411.07501) and an embedding of
// the token for that layer; gates of the first layers are sparse; the last layers attend to keys of earlier ones.
#include <cmath>

#include "gabbro/ops/experts.h"
#include "src/base/error.h"
#include "src/models/llm/families/gemma3n_config.h"

namespace gabbro::llm::gemma3n {
namespace {

constexpr std::string_view kArchitectures[] = {"gemma3n", "gemma3n_text"};

class Gemma3n : public LanguageModel {
 public:
  Gemma3n(Config config, WeightSource& weights);

  const ModelShape& shape() const override { return config_.decoder.shape; }
  std::vector<nn::CacheLayer> cache_spec() const override;
  Tensor forward(const Step& step, const nn::KvCache& cache) const override;
  bool takes_copies() const override { return true; }

 private:
  struct Layer {
    Norm altup_router_norm;                          // [C]
    std::shared_ptr<nn::Linear> altup_router;        // [N, C]
    std::shared_ptr<nn::Linear> altup_predict_coef;  // [N·N, N]
    std::shared_ptr<nn::Linear> altup_correct_coef;  // [N, N]
    Tensor altup_correct_scale;                      // [C]
    Norm attn_norm;                                  // [C]
    std::shared_ptr<nn::Linear> laurel_l, laurel_r;  // [rank, C], [C, rank]
    Norm laurel_post_norm;                           // [C]
    std::shared_ptr<nn::Linear> attn_q;              // [H·D, C]
    std::shared_ptr<nn::Linear> attn_k, attn_v;      // [G·D, C], of layers with their own
    Norm attn_q_norm, attn_k_norm;                   // [D]
    std::shared_ptr<nn::Linear> attn_output;         // [C, H·D]
    Norm post_attention_norm;                        // [C]
    Norm ffn_norm;                                   // [C]
    std::shared_ptr<nn::Linear> ffn_gate, ffn_up;    // [F, C]
    std::shared_ptr<nn::Linear> ffn_down;            // [C, F]
    Norm post_ffw_norm;                              // [C]
    std::shared_ptr<nn::Linear> inp_gate, proj;      // [P, C], [C, P]
    Norm post_norm;                                  // [C]
  };
  struct Embedded {
    Tensor streams;    // [T, N, C]
    Tensor per_layer;  // [T, L, P]
  };

  Layer load_layer(WeightSource& weights, size_t index) const;
  Embedded embed_tokens(const Step& step) const;
  Tensor logits_of(const Tensor& streams) const;
  Tensor run_layer(size_t index, Embedded x, const Step& step, const nn::KvCache& cache,
                   std::vector<KvLayer>& written) const;
  Tensor attend(size_t index, const Tensor& h, const Step& step, const nn::KvCache& cache,
                std::vector<KvLayer>& written) const;
  Tensor feed_forward(size_t index, const Tensor& h) const;
  Tensor coefficients(const Layer& w, nn::Linear& projection, const Tensor& x) const;
  Tensor norm(const Norm& norm, const Tensor& x) const { return normalized(config_.decoder, norm, x); }
  Tensor stream(const Tensor& streams, int64_t index) const;  // [T, N, C] -> [T, C]

  Config config_;
  Rope rope_, local_rope_;
  Tensor token_embd_;                                 // [V, C]
  Tensor per_layer_token_embd_;                       // [rows, L·P]
  std::shared_ptr<nn::Linear> per_layer_model_proj_;  // [L·P, C]
  Norm per_layer_proj_norm_;                          // [P]
  Tensor altup_proj_;                                 // [(N - 1)·C, C]
  Tensor altup_unembd_proj_;                          // the same, a matrix for each stream but the first
  Norm value_norm_;                                   // [D], of ones
  std::vector<Layer> layers_;
  Norm output_norm_;                    // [C]
  std::shared_ptr<nn::Linear> output_;  // [V, C]
};

Gemma3n::Gemma3n(Config config, WeightSource& weights) : config_(std::move(config)) {
  const DecoderConfig& decoder = config_.decoder;
  const ModelShape& s = decoder.shape;
  const auto load_rope = [&](const ModelRope& rope) {
    const nn::RopeFrequencies frequencies = nn::rope_frequencies(rope, rope.divisors);
    return Rope{.options = {.interleaved = rope.interleaved, .magnitude = frequencies.magnitude},
                .inverse_frequencies = weights.upload(frequencies.inverse)};
  };
  rope_ = load_rope(decoder.rope);
  local_rope_ = load_rope(*decoder.local_rope);
  token_embd_ = weights.matrix("token_embd.weight", {s.vocabulary, s.embedding});
  const int64_t per_layer = s.layers * config_.layer_width;
  per_layer_token_embd_ = weights.matrix("per_layer_token_embd.weight", {config_.layer_tokens, per_layer});
  per_layer_model_proj_ = weights.linear("per_layer_model_proj", {per_layer, s.embedding});
  per_layer_proj_norm_ = load_norm(decoder, weights, "per_layer_proj_norm", config_.layer_width);
  const ExpertsSize between{
      .experts = config_.streams - 1, .rows = s.embedding, .columns = s.embedding, .used = config_.streams - 1};
  altup_proj_ = weights.experts("altup_proj.weight", between).matrix;
  altup_unembd_proj_ = weights.experts("altup_unembd_proj.weight", between).matrix;
  value_norm_ = {.weight = weights.upload(std::vector<float>(static_cast<size_t>(s.head_dimension), 1.0f)), .bias = {}};
  for (size_t i = 0; i < decoder.layers.size(); ++i) layers_.push_back(load_layer(weights, i));
  output_norm_ = load_norm(decoder, weights, "output_norm", s.embedding);
  if (weights.has("output.weight")) {
    output_ = weights.linear("output", {s.vocabulary, s.embedding});
  } else {
    output_ = std::make_shared<nn::Linear>(token_embd_);
  }
}

Gemma3n::Layer Gemma3n::load_layer(WeightSource& weights, size_t index) const {
  const ModelShape& s = config_.decoder.shape;
  const int64_t c = s.embedding, d = s.head_dimension, n = config_.streams;
  const std::string prefix = fmt::format("blk.{}.", index);
  const auto linear = [&](const char* name, int64_t rows, int64_t columns) {
    return weights.linear(prefix + name, {rows, columns});
  };
  const auto norm = [&](const char* name, int64_t length) {
    return load_norm(config_.decoder, weights, prefix + name, length);
  };
  Layer w;
  w.altup_router_norm = norm("altup_router_norm", c);
  w.altup_router = linear("altup_router", n, c);
  w.altup_predict_coef = linear("altup_predict_coef", n * n, n);
  w.altup_correct_coef = linear("altup_correct_coef", n, n);
  w.altup_correct_scale = weights.vector(prefix + "altup_correct_scale.weight", c);
  w.attn_norm = norm("attn_norm", c);
  w.laurel_l = linear("laurel_l", config_.laurel_rank, c);
  w.laurel_r = linear("laurel_r", c, config_.laurel_rank);
  w.laurel_post_norm = norm("laurel_post_norm", c);
  w.attn_q = linear("attn_q", s.heads * d, c);
  w.attn_q_norm = norm("attn_q_norm", d);
  // Published files have keys and values of all layers, and llama.cpp asks for them.
  if (config_.sources[index] == index || weights.has(prefix + "attn_k.weight")) {
    w.attn_k = linear("attn_k", s.kv_heads * d, c);
    w.attn_v = linear("attn_v", s.kv_heads * d, c);
    w.attn_k_norm = norm("attn_k_norm", d);
  }
  w.attn_output = linear("attn_output", c, s.heads * d);
  w.post_attention_norm = norm("post_attention_norm", c);
  w.ffn_norm = norm("ffn_norm", c);
  w.ffn_gate = linear("ffn_gate", s.feed_forward, c);
  w.ffn_up = linear("ffn_up", s.feed_forward, c);
  w.ffn_down = linear("ffn_down", c, s.feed_forward);
  w.post_ffw_norm = norm("post_ffw_norm", c);
  w.inp_gate = linear("inp_gate", config_.layer_width, c);
  w.proj = linear("proj", c, config_.layer_width);
  w.post_norm = norm("post_norm", c);
  return w;
}

std::vector<nn::CacheLayer> Gemma3n::cache_spec() const {
  const ModelShape& s = config_.decoder.shape;
  std::vector<nn::CacheLayer> layers;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (config_.sources[i] == i) {
      layers.push_back(
          {.heads = s.kv_heads, .dimension = s.head_dimension, .window = config_.decoder.layers[i].window});
    } else {
      layers.push_back({.kind = nn::CacheKind::kState});  // no keys
    }
  }
  return layers;
}

Tensor Gemma3n::stream(const Tensor& streams, int64_t index) const {
  const Shape& shape = streams.shape();
  return reshape(slice(streams, 1, index, 1), Shape{shape[0], shape[2]});
}

// x [..., C] with the root of its mean square made that of `like` [..., C].
Tensor with_magnitude_of(const Tensor& x, const Tensor& like) {
  constexpr float kLeastSquare = 1e-5f;
  const Tensor target = sqrt(mean(square(like), {-1}, true));
  const Tensor own = sqrt(maximum(mean(square(x), {-1}, true), scalar(x.device(), kLeastSquare)));
  return x * target / own;
}

Gemma3n::Embedded Gemma3n::embed_tokens(const Step& step) const {
  const DecoderConfig& decoder = config_.decoder;
  const int64_t tokens = step.ids.shape()[0], c = decoder.shape.embedding;
  const auto number = [&](double x) { return scalar(step.ids.device(), x); };
  const Tensor x = embedding(token_embd_, step.ids) * number(decoder.embedding_scale);  // [T, C]

  // Tokens that stand for pictures and sounds have no embeddings for layers.
  const auto integer = [&](int64_t i) { return scalar(step.ids.device(), static_cast<double>(i), DType::i32); };
  const Tensor ids = where(less(step.ids, integer(config_.layer_tokens)), step.ids, integer(0));
  const Shape by_layer{tokens, decoder.shape.layers, config_.layer_width};
  const double width = std::sqrt(static_cast<double>(config_.layer_width));
  const Tensor own = reshape(embedding(per_layer_token_embd_, ids) * number(width), by_layer);
  const Tensor projected = (*per_layer_model_proj_)(x)*number(1 / std::sqrt(static_cast<double>(c)));
  const Tensor per_layer =
      (norm(per_layer_proj_norm_, reshape(projected, by_layer)) + own) * number(std::sqrt(0.5));  // [T, L, P]

  const Tensor first = reshape(x, Shape{tokens, 1, c});
  const Tensor others = reshape(linear(x, altup_proj_), Shape{tokens, config_.streams - 1, c});
  return {.streams = concat({first, with_magnitude_of(others, first)}, 1), .per_layer = per_layer};
}

// Logits [R, V] of streams [R, N, C].
Tensor Gemma3n::logits_of(const Tensor& streams) const {
  const int64_t tokens = streams.shape()[0], others = config_.streams - 1;
  const Tensor first = slice(streams, 1, 0, 1);  // [R, 1, C]
  const Tensor numbers = reshape(iota(streams.device(), others, DType::i32), Shape{1, others});
  const Tensor each = expert_linear(slice(streams, 1, 1, others), altup_unembd_proj_,
                                    broadcast_to(numbers, Shape{tokens, others}), others);  // [R, N - 1, C]
  const Tensor x = mean(concat({first, with_magnitude_of(each, first)}, 1), {1});           // [R, C]
  const Tensor logits = (*output_)(norm(output_norm_, x));
  const float cap = config_.decoder.logit_softcap;
  if (cap == 0) return logits;
  return tanh(logits * scalar(x.device(), 1 / cap)) * scalar(x.device(), cap);
}

// The router's result for x [T, C], through one of the small matrices.
Tensor Gemma3n::coefficients(const Layer& w, nn::Linear& projection, const Tensor& x) const {
  const double scale = 1.0 / static_cast<double>(config_.decoder.shape.embedding);
  const Tensor routed = (*w.altup_router)(norm(w.altup_router_norm, x) * scalar(x.device(), scale));
  return projection(tanh(routed));
}

Tensor Gemma3n::attend(size_t index, const Tensor& h, const Step& step, const nn::KvCache& cache,
                       std::vector<KvLayer>& written) const {
  const Layer& w = layers_[index];
  const LayerKind& kind = config_.decoder.layers[index];
  const Rope& rotation = kind.local_rope ? local_rope_ : rope_;
  const size_t source = config_.sources[index], group = cache.group(source);
  const TokenPositions places = step.places_in(group);
  const int64_t tokens = h.shape()[0], d = config_.decoder.shape.head_dimension;
  const auto heads = [&](const Tensor& x) { return reshape(x, Shape{tokens, x.shape()[1] / d, d}); };
  const auto rotated = [&](const Tensor& x) {
    return rope(x, places.positions, rotation.inverse_frequencies, rotation.options);
  };
  const Tensor q = rotated(norm(w.attn_q_norm, heads((*w.attn_q)(h))));  // [T, H, D]
  if (source == index) {
    const Tensor k = rotated(norm(w.attn_k_norm, heads((*w.attn_k)(h))));  // [T, G, D]
    const Tensor v = norm(value_norm_, heads((*w.attn_v)(h)));             // [T, G, D]
    const Tensor& copies = step.copies.rows;
    const KvLayer& before = cache.layer(index);
    written[index] = copies.defined() ? kv_write(before, gather(k, copies), gather(v, copies), step.copies_in(group))
                                      : kv_write(before, k, v, places);
  }
  const Tensor mixed =
      attention(q, written[source], places, {.scale = config_.decoder.attention_scale, .window = kind.window});
  return reshape(mixed, Shape{tokens, mixed.shape()[1] * d});  // [T, H·D]
}

Tensor Gemma3n::feed_forward(size_t index, const Tensor& h) const {
  const Layer& w = layers_[index];
  Tensor gate = (*w.ffn_gate)(h);  // [T, F]
  if (const float cutoff = config_.cutoffs[index]; cutoff != kDense) {
    const Tensor from = mean(gate, {-1}, true) + std(gate, {-1}, 0, true) * scalar(h.device(), cutoff);
    gate = relu(gate - from);
  }
  return (*w.ffn_down)(activated(config_.decoder.activation, gate) * (*w.ffn_up)(h));
}

Tensor Gemma3n::run_layer(size_t index, Embedded x, const Step& step, const nn::KvCache& cache,
                          std::vector<KvLayer>& written) const {
  const Layer& w = layers_[index];
  const bool last = index + 1 == layers_.size();  // what follows its attention is needed for wanted tokens alone
  const auto wanted = [&](const Tensor& all) {
    return last && step.output_rows.defined() ? gather(all, step.output_rows) : all;
  };
  const int64_t n = config_.streams, c = config_.decoder.shape.embedding;
  const auto number = [&](double value) { return scalar(x.streams.device(), value); };

  const Tensor before = stream(x.streams, config_.active);
  const Tensor mixing = reshape(coefficients(w, *w.altup_predict_coef, before), Shape{before.shape()[0], n, n});
  const Tensor all_predicted = matmul(mixing, x.streams) + x.streams;  // [T, N, C]
  const Tensor h = norm(w.attn_norm, stream(all_predicted, config_.active));
  const Tensor mixed = wanted(attend(index, h, step, cache, written));  // [R, H·D]

  const Tensor predicted = wanted(all_predicted);           // [R, N, C]
  const Tensor active = stream(predicted, config_.active);  // [R, C]
  const Tensor low = wanted(h);                             // [R, C]
  const Tensor laurel = low + norm(w.laurel_post_norm, (*w.laurel_r)((*w.laurel_l)(low)));
  const Tensor attended = active + norm(w.post_attention_norm, (*w.attn_output)(mixed));
  const Tensor y = (attended + laurel) * number(std::sqrt(0.5));
  const Tensor result = y + norm(w.post_ffw_norm, feed_forward(index, norm(w.ffn_norm, y)));

  const int64_t rows = result.shape()[0];
  const Tensor factors = coefficients(w, *w.altup_correct_coef, result) + number(1);  // [R, N]
  const Tensor corrected =
      predicted + reshape(factors, Shape{rows, n, 1}) * reshape(result - active, Shape{rows, 1, c});  // [R, N, C]
  const Tensor own = reshape(slice(wanted(x.per_layer), 1, static_cast<int64_t>(index), 1),
                             Shape{rows, config_.layer_width});  // [R, P]
  const Tensor gate = (*w.inp_gate)(stream(corrected, config_.active) * w.altup_correct_scale);
  const Tensor added = norm(w.post_norm, (*w.proj)(activated(config_.decoder.activation, gate) * own));  // [R, C]
  return concat({slice(corrected, 1, 0, 1), slice(corrected, 1, 1, n - 1) + reshape(added, Shape{rows, 1, c})}, 1);
}

Tensor Gemma3n::forward(const Step& step, const nn::KvCache& cache) const {
  Embedded x = embed_tokens(step);
  std::vector<KvLayer> written(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) x.streams = run_layer(i, x, step, cache, written);
  return logits_of(x.streams);
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const Config config = read_config(checkpoint);
  if (!config.decoder.rope.divisors.empty())
    ConfigReader(checkpoint)
        .refuse({nullptr, "rope_parameters.full_attention.rope_type"},
                "divides frequencies, which GGUF files of this architecture cannot say");
  write_decoder_fields(config.decoder, fields);
  fields.size("altup.num_inputs", config.streams);
  fields.size("altup.active_idx", config.active);
  fields.size("embedding_length_per_layer_input", config.layer_width);
  size_t own = 0;
  while (own < config.sources.size() && config.sources[own] == own) ++own;
  fields.size("attention.shared_kv_layers", std::ssize(config.sources) - static_cast<int64_t>(own));
  fields.writer.add_f32s(fields.architecture + ".activation_sparsity_scale", config.cutoffs);
}

}  // namespace

extern const Family kGemma3n;
const Family kGemma3n = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = [](const Checkpoint& checkpoint) { return read_config(checkpoint).decoder.shape; },
    .build = [](const Checkpoint& checkpoint, WeightSource& weights, int64_t) -> std::unique_ptr<LanguageModel> {
      return std::make_unique<Gemma3n>(read_config(checkpoint), weights);
    },
    .write_fields = write_fields,
};

}  // namespace gabbro::llm::gemma3n
