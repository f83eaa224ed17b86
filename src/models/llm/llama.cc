#include "src/models/llm/llama.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr WeightName kNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
};

// The divisors of the rotary frequencies: Llama 3's table, or LongRoPE's for contexts that are longer than the original
// one, or not. As in llama.cpp, the context that may be used decides, not what is in it.
std::vector<float> rope_divisors(const Checkpoint& checkpoint, WeightSource& weights, const ModelRope& rope,
                                 int64_t context) {
  const bool extended = rope.scaling == nn::RopeScaling::kLongRope && context > rope.original_context;
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) return extended ? rope.long_divisors : rope.divisors;
  std::string name = "rope_freqs.weight";
  if (rope.scaling == nn::RopeScaling::kLongRope) {
    name = extended ? "rope_factors_long.weight" : "rope_factors_short.weight";
  } else if (!weights.has(name)) {
    return {};
  }
  std::vector<float> divisors = weights.host_vector(name, rope.dimensions / 2);
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor <= 0; }))
    throw bad_input("{}: tensor '{}' has values that are not above 0; the file is damaged", checkpoint.path(), name);
  return divisors;
}

}  // namespace

Llama::Llama(const Checkpoint& checkpoint, WeightSource& weights, int64_t context)
    : config_(read_llama_config(checkpoint)) {
  const ModelShape& s = config_.shape;
  const nn::RopeFrequencies frequencies =
      nn::rope_frequencies(config_.rope, rope_divisors(checkpoint, weights, config_.rope, context));
  inverse_frequencies_ = weights.upload(frequencies.inverse);
  rope_ = {.interleaved = config_.rope.interleaved, .magnitude = frequencies.magnitude};
  const PairedRows paired{.head_dimension = s.head_dimension, .rotated = config_.rope.dimensions};

  token_embd_ = weights.matrix("token_embd.weight", s.vocabulary, s.embedding);
  const int64_t q_width = s.heads * s.head_dimension;
  const int64_t kv_width = s.kv_heads * s.head_dimension;
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string prefix = fmt::format("blk.{}.", i);
    layers_.push_back({
        .attn_norm = weights.vector(prefix + "attn_norm.weight", s.embedding),
        .attn_q = weights.linear(prefix + "attn_q", q_width, s.embedding, paired),
        .attn_k = weights.linear(prefix + "attn_k", kv_width, s.embedding, paired),
        .attn_v = weights.linear(prefix + "attn_v", kv_width, s.embedding),
        .attn_output = weights.linear(prefix + "attn_output", s.embedding, q_width),
        .ffn_norm = weights.vector(prefix + "ffn_norm.weight", s.embedding),
        .ffn_gate = weights.linear(prefix + "ffn_gate", s.feed_forward, s.embedding),
        .ffn_up = weights.linear(prefix + "ffn_up", s.feed_forward, s.embedding),
        .ffn_down = weights.linear(prefix + "ffn_down", s.embedding, s.feed_forward),
    });
  }
  output_norm_ = weights.vector("output_norm.weight", s.embedding);
  if (weights.has("output.weight")) {
    output_ = weights.linear("output", s.vocabulary, s.embedding);
  } else {
    output_.weight = token_embd_;
  }
}

Tensor Llama::heads(const Tensor& x) const {
  const int64_t d = config_.shape.head_dimension;
  return reshape(x, Shape{x.shape()[0], x.shape()[1] / d, d});
}

Tensor Llama::scaled(const Tensor& x, float factor) const { return factor == 1 ? x : x * scalar(x.device(), factor); }

Tensor Llama::residual(const Tensor& x, const Tensor& update) const {
  return x + scaled(update, config_.residual_scale);
}

// `rows`, where given, are the tokens that are wanted from here on: i32 [R].
Tensor Llama::layer(const Layer& w, Tensor x, const Step& step, KvLayer cache, const Tensor& rows) const {  // x [T, C]
  Tensor h = rms_norm(x, w.attn_norm, config_.norm_epsilon);
  const Tensor q = rope(heads(w.attn_q(h)), step.places.positions, inverse_frequencies_, rope_);  // [T, H, D]
  const Tensor k = rope(heads(w.attn_k(h)), step.places.positions, inverse_frequencies_, rope_);  // [T, G, D]
  const Tensor v = heads(w.attn_v(h));                                                            // [T, G, D]
  cache = kv_write(cache, k, v, step.places);
  Tensor mixed = attention(q, cache, step.places, {.scale = config_.attention_scale, .window = config_.window});
  mixed = reshape(mixed, Shape{x.shape()[0], mixed.shape()[1] * mixed.shape()[2]});  // [T, H·D]
  if (rows.defined()) {
    mixed = gather(mixed, rows);
    x = gather(x, rows);
  }
  x = residual(x, w.attn_output(mixed));
  h = rms_norm(x, w.ffn_norm, config_.norm_epsilon);
  return residual(x, w.ffn_down(silu(w.ffn_gate(h)) * w.ffn_up(h)));
}

Tensor Llama::forward(const Step& step, const nn::KvCache& cache) const {
  Tensor x = scaled(embedding(token_embd_, step.ids), config_.embedding_scale);  // [T, C]
  for (size_t i = 0; i < layers_.size(); ++i) {
    const bool last = i + 1 == layers_.size();  // what follows its attention is needed for the wanted tokens alone
    x = layer(layers_[i], x, step, cache.layer(i), last ? step.output_rows : Tensor());
  }
  const Tensor h = rms_norm(x, output_norm_, config_.norm_epsilon);  // [R, C]
  return scaled(output_(h), 1 / config_.logit_scale);                // [R, V]
}

namespace {

// Llama 1 to 3, Mistral, SmolLM 1 and 2, Yi, TinyLlama, Vicuna and others; Granite. GGUF files call all but the last
// llama.
constexpr std::string_view kArchitectures[] = {"llama", "mistral", "granite"};

}  // namespace

extern const Family kLlama;
const Family kLlama = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = [](const Checkpoint& checkpoint) { return read_llama_config(checkpoint).shape; },
    .build = [](const Checkpoint& checkpoint, WeightSource& weights, int64_t context)
        -> std::unique_ptr<LanguageModel> { return std::make_unique<Llama>(checkpoint, weights, context); },
};

}  // namespace gabbro::llm
