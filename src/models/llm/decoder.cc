#include "src/models/llm/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "gabbro/graph/eval.h"
#include "src/backend/device.h"
#include "src/backend/stream.h"
#include "src/base/error.h"
#include "src/models/weights/host_block_weights.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {
namespace {

// Divisors of the rotary frequencies [R/2] in a tensor of a GGUF file.
std::vector<float> divisors_in_file(const Checkpoint& checkpoint, WeightSource& weights, const ModelRope& rope,
                                    const std::string& name) {
  std::vector<float> divisors = weights.values(name, {rope.dimensions / 2});
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor <= 0; }))
    throw bad_input("{}: tensor '{}' has values that are not above 0; the file is damaged", checkpoint.path(), name);
  return divisors;
}

// The rope with its divisors: Llama 3's table, or LongRoPE's two. Files of Phi 3 have the latter, and do not name the
// method.
ModelRope with_divisors(const Checkpoint& checkpoint, WeightSource& weights, ModelRope rope, int64_t context) {
  if (checkpoint.layout() == CheckpointLayout::kHuggingFace) return rope;
  const auto read = [&](const char* name) { return divisors_in_file(checkpoint, weights, rope, name); };
  if (rope.scaling == nn::RopeScaling::kLongRope || weights.has("rope_factors_short.weight")) {
    rope.divisors = read("rope_factors_short.weight");
    if (context > rope.original_context) rope.long_divisors = read("rope_factors_long.weight");
  } else if (weights.has("rope_freqs.weight")) {
    rope.divisors = read("rope_freqs.weight");
  }
  return rope;
}

Rope uploaded(const ModelRope& rope, WeightSource& weights) {
  const nn::RopeFrequencies frequencies = nn::rope_frequencies(rope, rope.divisors);
  return {.options = {.interleaved = rope.interleaved, .magnitude = frequencies.magnitude},
          .inverse_frequencies = weights.upload(frequencies.inverse)};
}

Tensor scaled(const Tensor& x, float factor) { return factor == 1 ? x : x * scalar(x.device(), factor); }

Tensor softcapped(const Tensor& x, float cap) { return cap == 0 ? x : scaled(tanh(scaled(x, 1 / cap)), cap); }

}  // namespace

Decoder::Decoder(DecoderConfig config, const Checkpoint& checkpoint, WeightSource& weights, int64_t context,
                 const MakeMixer& make_mixer)
    : config_(std::move(config)), shard_(weights.shard()) {
  const ModelShape& s = config_.shape;
  const auto rotates = [](const LayerKind& kind) { return kind.rotated; };
  if (std::ranges::any_of(config_.layers, rotates)) rope_ = load_rope(checkpoint, weights, context);
  if (config_.local_rope) local_rope_ = uploaded(*config_.local_rope, weights);

  token_embd_ =
      weights.matrix("token_embd.weight", {s.vocabulary, s.embedding}, with_factor(config_.factors.token_embd));
  if (config_.embedding_norm) token_embd_norm_ = load_norm(config_, weights, "token_embd_norm", s.embedding);
  if (config_.learned_positions)
    position_embd_ = weights.matrix("position_embd.weight", {s.context_trained, s.embedding},
                                    {.skipped_rows = config_.position_offset});
  for (int64_t i = 0; i < s.layers; ++i) layers_.push_back(load_layer(weights, i, make_mixer));
  output_norm_ = load_norm(config_, weights, config_.output_norm_name, s.embedding);
  const bool has_head = weights.has("output.weight");
  if (!has_head && !config_.may_be_tied)
    throw bad_input("{}: the files have no head, and field 'tie_word_embeddings' is false", checkpoint.path());
  if (has_head) {
    output_ = weights.linear("output", {s.vocabulary, s.embedding}, with_factor(config_.factors.output));
  } else {
    output_ = std::make_shared<nn::Linear>(token_embd_);
  }
}

Rope Decoder::load_rope(const Checkpoint& checkpoint, WeightSource& weights, int64_t context) {
  const ModelRope rope = with_divisors(checkpoint, weights, config_.rope, context);
  const bool by_length = rope.scaling == nn::RopeScaling::kDynamic || !rope.long_divisors.empty();
  if (by_length && context > rope.original_context) rotations_.emplace(rope, rope.divisors, rope.long_divisors);
  return uploaded(rope, weights);
}

// In place, so that mixers and plans that hold the tensor have the new frequencies; ordered after what was enqueued.
void Decoder::set_rotation(int64_t rotation) {
  if (!rotations_ || rotation == rotation_) return;
  const std::vector<float> frequencies = rotations_->frequencies(rotation);
  const TensorState& state = rope_.inverse_frequencies.state();
  state.device->state()
      .compute_stream(*state.device)
      .copy_to_device(state.storage.get(), frequencies.data(), frequencies.size() * sizeof(float));
  rotation_ = rotation;
}

Decoder::Layer Decoder::load_layer(WeightSource& weights, int64_t index, const MakeMixer& make_mixer) const {
  const int64_t c = config_.shape.embedding;
  const std::string prefix = fmt::format("blk.{}.", index);
  const bool before = config_.norm_placement != NormPlacement::kAfter;
  const bool after = config_.norm_placement != NormPlacement::kBefore;
  Layer layer;
  if (before) layer.attn_norm = load_norm(config_, weights, prefix + config_.attn_norm_name, c);
  if (make_mixer) layer.mixer = make_mixer({.weights = weights, .prefix = prefix, .layer = index, .rope = rope_});
  if (layer.mixer == nullptr) {
    const LayerKind& kind = config_.layers[static_cast<size_t>(index)];
    layer.mixer =
        std::make_shared<SelfAttention>(config_, kind, kind.local_rope ? local_rope_ : rope_, weights, prefix);
  }
  if (after) layer.post_attention_norm = load_norm(config_, weights, prefix + "post_attention_norm", c);
  if (config_.shape.feed_forward == 0) return layer;
  if (before && !config_.shared_norm) layer.ffn_norm = load_norm(config_, weights, prefix + config_.ffn_norm_name, c);
  layer.block = std::make_shared<FeedForward>(config_, weights, prefix, index);
  if (after) layer.post_ffw_norm = load_norm(config_, weights, prefix + "post_ffw_norm", c);
  return layer;
}

void Decoder::add_host_blocks(HostBlockWeights& host) {
  for (int64_t i = 0; i < config_.shape.layers; ++i) {
    Layer& layer = layers_[static_cast<size_t>(i)];
    if (layer.block == nullptr) continue;
    const std::string prefix = fmt::format("blk.{}.", i);
    const HostBlockWeights::Block block = host.take(prefix);
    if (block.weights == nullptr) continue;
    layer.host_block = std::make_shared<FeedForward>(config_, *block.weights, prefix, i);
    layer.host = block.device;
    layer.host_tokens = block.tokens;
  }
}

bool Decoder::takes_copies() const {
  return std::ranges::all_of(layers_, [](const Layer& layer) { return layer.mixer->takes_copies(); });
}

// The block of a layer for h [T, C], on the host; `made_with` are tensors that h is made of, which are needed again.
Tensor Decoder::run_on_host(const Layer& w, const Tensor& h, std::span<const Tensor> made_with,
                            const Step& step) const {
  const DevicePointer device = h.device();
  std::vector<Tensor> values(made_with.begin(), made_with.end());
  values.push_back(h);
  eval(values);
  const std::vector<float> there = to_host<float>(cast(h, DType::f32));
  const Tensor y = (*w.host_block)(w.host->upload(DType::f32, h.shape(), there.data()), step);  // [T, C]
  const std::vector<float> back = to_host<float>(cast(y, DType::f32));
  return cast(device->upload(DType::f32, y.shape(), back.data()), h.dtype());
}

// The block of a layer whose experts are read when h [T, C] has chosen them; `made_with` are tensors that h is made of,
// which are needed again. The router of the next layer sees what goes into this block, and so guesses its experts.
Tensor Decoder::run_by_need(const Layer& w, const Layer* next, const Tensor& h, std::span<const Tensor> made_with,
                            const Step& step) const {
  constexpr int64_t kMostTokens = 4;  // more of them want nearly all experts
  const bool guesses = next != nullptr && next->block != nullptr && next->block->slots() != nullptr &&
                       next->ffn_norm.weight.defined() && h.shape()[0] <= kMostTokens;
  std::vector<Tensor> values(made_with.begin(), made_with.end());
  values.push_back(h);
  Tensor likely;
  if (guesses) {
    likely = next->block->mixture()->chosen(normalized(config_, next->ffn_norm, made_with.front()));
    values.push_back(likely);
  }
  eval(values, w.block->slots()->cancel());
  const Tensor y = (*w.block)(h, step);
  if (guesses) next->block->mixture()->expect(likely);
  return y;
}

// The block of a layer for h [T, C], where it is; `made_with`: as above.
Tensor Decoder::run_block(const Layer& w, const Layer* next, Tensor h, const std::array<Tensor, 2>& made_with,
                          const Step& step) const {
  if (w.host_block != nullptr && h.shape()[0] <= w.host_tokens) return run_on_host(w, h, made_with, step);
  if (w.block->slots() != nullptr) return run_by_need(w, next, h, made_with, step);
  const Tensor y = (*w.block)(h, step);
  h = Tensor();
  return summed(y, made_with[0]);
}

Tensor Decoder::layer(const Layer& w, const Layer* next, Tensor x, const MixerStep& at) const {  // x [T, C]
  const Step& step = at.step;
  const auto norm = [&](std::string_view name, const Norm& weights, const Tensor& value) {
    return weights.weight.defined() ? step.noted(name, normalized(config_, weights, value)) : value;
  };
  Tensor h = norm("attn_norm", w.attn_norm, x);
  const Tensor mixing = (*w.mixer)(h, at);
  if (!config_.shared_norm) h = Tensor();                       // a norm that nothing holds is fused with what reads it
  const Tensor mixed = step.noted("mixer", summed(mixing, x));  // [R, C]
  if (at.rows.defined()) {
    x = gather(x, at.rows);
    if (config_.shared_norm) h = gather(h, at.rows);
  }
  const Tensor update = scaled(norm("post_attention_norm", w.post_attention_norm, mixed), config_.residual_scale);
  const Tensor stream = config_.parallel ? x : step.noted("attn_residual", x + update);
  if (w.block == nullptr) return stream;
  if (!config_.shared_norm) h = norm("ffn_norm", w.ffn_norm, stream);
  const Tensor y = step.noted("ffn_output", run_block(w, next, std::move(h), {stream, update}, step));
  const Tensor added = scaled(norm("post_ffw_norm", w.post_ffw_norm, y), config_.residual_scale);
  return config_.parallel ? stream + update + added : stream + added;
}

std::vector<nn::CacheLayer> Decoder::cache_spec() const {
  std::vector<nn::CacheLayer> layers;
  for (const Layer& layer : layers_) layers.push_back(layer.mixer->cache());
  return layers;
}

// Each device gives its addends to the stream: the sum comes before anything that is not linear, such as a norm. The
// stream is needed after it.
Tensor Decoder::summed(const Tensor& partial, const Tensor& stream) const {
  if (shard_ == nullptr) return partial;
  return stream.defined() ? (*shard_->sum)(partial, std::span(&stream, 1)) : (*shard_->sum)(partial);
}

// The embeddings [T, C] of ids i32 [T]. Devices that hold other rows add zeros.
Tensor Decoder::token_rows(const Tensor& ids) const {
  if (shard_ == nullptr) return embedding(token_embd_, ids);
  const IndexRange rows = shard_->part_of_vocabulary(config_.shape.vocabulary);
  const auto number = [&](int64_t x) { return scalar(ids.device(), static_cast<double>(x), DType::i32); };
  const Tensor at = ids - number(rows.first);
  const Tensor inside = minimum(maximum(at, number(0)), number(rows.count - 1));
  const Tensor x = embedding(token_embd_, inside);
  return summed(where(reshape(equal(at, inside), Shape{ids.shape()[0], 1}), x, scalar(x.device(), 0, x.dtype())));
}

Tensor Decoder::embed(const Step& step) const {
  Tensor x = scaled(token_rows(step.ids), config_.embedding_scale);  // [T, C]
  x = normalized(config_, token_embd_norm_, x);
  return config_.learned_positions ? x + embedding(position_embd_, step.places.positions) : x;
}

Tensor Decoder::layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const {
  const bool last = index + 1 == config_.shape.layers;  // what follows its mixing is needed for wanted tokens alone
  const auto i = static_cast<size_t>(index);
  const Layer* const next = last ? nullptr : &layers_[i + 1];
  const Tensor all;
  return layer(layers_[i], next, x, {.step = step, .cache = cache, .layer = i, .rows = last ? step.output_rows : all});
}

Tensor Decoder::head(const Tensor& x) const {
  const Tensor logits = (*output_)(normalized(config_, output_norm_, x));  // [R, V]
  return softcapped(scaled(logits, config_.logit_scale), config_.logit_softcap);
}

Tensor Decoder::forward(const Step& step, const nn::KvCache& cache) const {
  Tensor x = embed(step);
  for (int64_t i = 0; i < config_.shape.layers; ++i) x = layer(i, x, step, cache);
  return head(x);
}

}  // namespace gabbro::llm
