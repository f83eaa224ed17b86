#include "src/models/encoder/t5_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "gabbro/ops/products.h"
#include "src/base/error.h"
#include "src/models/encoder/registry.h"
#include "src/plan/eval.h"

namespace gabbro::encoder {

T5Decoder::T5Decoder(EncoderConfig config, bool scaled, WeightSource& weights, DType kv_type)
    : config_(std::move(config)), scaled_(scaled), kv_type_(kv_type) {
  const ModelShape& s = config_.shape;
  config_.buckets.both_directions = false;
  token_embd_ = weights.matrix("token_embd.weight", {s.vocabulary, s.embedding});
  bias_buckets_ = weights.tensor("dec.blk.0.attn_rel_b.weight", {config_.buckets.count, s.heads});
  for (int64_t i = 0; i < s.layers; ++i) layers_.push_back(load_layer(weights, i));
  output_norm_ = weights.vector("dec.output_norm.weight", s.embedding);
  if (weights.has("output.weight")) {
    output_ = weights.linear("output", {s.vocabulary, s.embedding});
  } else {
    output_ = std::make_shared<nn::Linear>(token_embd_);
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

namespace {

Tensor by_head(const Tensor& rows) { return permute(rows, {1, 0, 2}); }  // [n, H, D] -> [H, n, D]

}  // namespace

// Each token attends to all of the encoder's states: x [T, C], states [S, C] -> [T, C].
Tensor T5Decoder::attend_to_text(const Attention& w, const Tensor& x, const Tensor& states) const {
  const Tensor mixed = scaled_dot_product_attention(by_head(heads((*w.q)(x))), by_head(heads((*w.k)(states))),
                                                    by_head(heads((*w.v)(states))), {.scale = 1.0});  // [H, T, D]
  return (*w.o)(reshape(permute(mixed, {1, 0, 2}), Shape{x.shape()[0], mixed.shape()[0] * mixed.shape()[2]}));
}

Tensor T5Decoder::layer(const Layer& w, Tensor x, const EncoderBatch& batch, const EncoderAttention& bias,
                        const Tensor& states) const {  // x [T, C]
  const auto norm = [&](const Tensor& weight, const Tensor& of) { return rms_norm(of, weight, config_.norm_epsilon); };
  Tensor h = norm(w.own.norm, x);
  x = x + (*w.own.o)(attend(batch, heads((*w.own.q)(h)), heads((*w.own.k)(h)), heads((*w.own.v)(h)), bias));
  x = x + attend_to_text(w.cross, norm(w.cross.norm, x), states);
  return x + feed_forward(w, x);
}

Tensor T5Decoder::feed_forward(const Layer& w, const Tensor& x) const {
  const Tensor h = rms_norm(x, w.ffn_norm, config_.norm_epsilon);
  const auto f = [&](const Tensor& of) { return llm::activated(config_.activation, of); };
  return (*w.ffn_down)(config_.gated ? f((*w.ffn_gate)(h)) * (*w.ffn_up)(h) : f((*w.ffn_up)(h)));
}

Tensor T5Decoder::head(const Tensor& x) const {
  const Tensor h = rms_norm(x, output_norm_, config_.norm_epsilon);
  return (*output_)(scaled_ ? h * scalar(h.device(), 1 / std::sqrt(static_cast<double>(config_.shape.embedding))) : h);
}

Tensor T5Decoder::forward(const EncoderBatch& batch, const Tensor& states) const {
  EncoderAttention bias{.scale = 1, .causal = true};
  bias.distance_bias = biases_of_distances(bias_buckets_, config_.buckets, batch.longest);
  Tensor x = embedding(token_embd_, batch.ids);  // [T, C]
  for (const Layer& w : layers_) x = layer(w, x, batch, bias, states);
  return head(x);
}

namespace {

void add_tensors(const std::vector<KvNumbers>& from, std::vector<Tensor>& to) {
  for (const KvNumbers& numbers : from) {
    to.push_back(numbers.elements);
    if (numbers.scales.defined()) to.push_back(numbers.scales);
  }
}

constexpr int64_t kLeastRoom = 64;  // tokens: steps share plans until there are more

// A tensor [H, N, ...] with `more` zeros after its tokens; undefined: only these, with the other lengths of `like`.
Tensor with_room(const Tensor& x, const Tensor& like, int64_t more, const DevicePointer& device) {
  if (!like.defined()) return {};
  const Shape shape{like.shape()[0], more, like.shape()[2]};
  const std::vector<std::byte> zeros(dtype_bytes(like.dtype(), static_cast<size_t>(shape.elements())));
  const Tensor empty = device->upload(like.dtype(), shape, zeros.data());
  return x.defined() ? concat({x, empty}, 1) : empty;
}

// Twice as many tokens.
void grow(nn::EncodedText& state, const DevicePointer& device) {
  const int64_t more = std::max(state.room, kLeastRoom);
  for (std::vector<KvNumbers>* const all : {&state.keys, &state.values}) {
    all->resize(state.text_keys.size());
    for (size_t i = 0; i < all->size(); ++i) {
      KvNumbers& one = (*all)[i];
      one = {.elements = with_room(one.elements, state.text_keys[i].elements, more, device),
             .scales = with_room(one.scales, state.text_keys[i].scales, more, device)};
    }
  }
  state.room += more;
}

// `all` with the numbers of `one` where `here` is true.
KvNumbers with_token(const Tensor& here, const KvNumbers& one, const KvNumbers& all) {
  return {.elements = where(here, one.elements, all.elements),
          .scales = all.scales.defined() ? where(here, one.scales, all.scales) : Tensor()};
}

Tensor decoded(const KvNumbers& numbers) { return kv_decode(numbers, 2); }

}  // namespace

nn::EncodedText T5Decoder::begin(const Tensor& states, const std::atomic<bool>* cancel) const {
  nn::EncodedText state;
  for (const Layer& w : layers_) {
    state.text_keys.push_back(kv_encode(by_head(heads((*w.cross.k)(states))), kv_type_));
    state.text_values.push_back(kv_encode(by_head(heads((*w.cross.v)(states))), kv_type_));
  }
  std::vector<Tensor> all;
  add_tensors(state.text_keys, all);
  add_tensors(state.text_values, all);
  eval(all, cancel);
  return state;
}

Tensor T5Decoder::step(nn::EncodedText& state, int32_t token, const std::atomic<bool>* cancel) const {
  const DevicePointer device = token_embd_.device();
  nn::EncodedText next = state;
  if (next.length == next.room) grow(next, device);
  const int64_t room = next.room, at = next.length;
  std::vector<int32_t> buckets(static_cast<size_t>(room), 0);
  std::vector<float> unseen(static_cast<size_t>(room), -std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j <= at; ++j) {
    buckets[static_cast<size_t>(j)] = distance_bucket(j - at, config_.buckets);
    unseen[static_cast<size_t>(j)] = 0;
  }
  const auto number = static_cast<int32_t>(at);
  const Tensor position = device->upload(DType::i32, Shape{1}, &number);
  const Tensor here = reshape(equal(iota(device, room, DType::i32), position), Shape{1, room, 1});
  const Tensor bias =
      permute(embedding(bias_buckets_, device->upload(DType::i32, Shape{room}, buckets.data())), {1, 0}) +
      device->upload(DType::f32, Shape{room}, unseen.data());  // [H, N]
  const Tensor mask = reshape(bias, Shape{config_.shape.heads, 1, room});
  Tensor x = embedding(token_embd_, device->upload(DType::i32, Shape{1}, &token));  // [1, C]
  const int64_t width = config_.shape.heads * config_.shape.head_dimension;
  const auto attended = [&](const Attention& w, const Tensor& h, const Tensor& k, const Tensor& v,
                            const Tensor& added) {
    const Tensor mixed =
        scaled_dot_product_attention(by_head(heads((*w.q)(h))), k, v, {.mask = added, .scale = 1.0});  // [H, 1, D]
    return (*w.o)(reshape(mixed, Shape{1, width}));
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& w = layers_[i];
    Tensor h = rms_norm(x, w.own.norm, config_.norm_epsilon);
    next.keys[i] = with_token(here, kv_encode(by_head(heads((*w.own.k)(h))), kv_type_), next.keys[i]);
    next.values[i] = with_token(here, kv_encode(by_head(heads((*w.own.v)(h))), kv_type_), next.values[i]);
    x = x + attended(w.own, h, decoded(next.keys[i]), decoded(next.values[i]), mask);
    h = rms_norm(x, w.cross.norm, config_.norm_epsilon);
    x = x + attended(w.cross, h, decoded(next.text_keys[i]), decoded(next.text_values[i]), Tensor());
    x = x + feed_forward(w, x);
  }
  const Tensor logits = head(x);
  std::vector<Tensor> wanted{logits};
  add_tensors(next.keys, wanted);
  add_tensors(next.values, wanted);
  eval(wanted, cancel);
  ++next.length;
  state = std::move(next);
  return logits;
}

bool has_t5_decoder(const Checkpoint& checkpoint) {
  const Family* const family = find_family(checkpoint);
  const bool named = family != nullptr && !llm::transformers_names(family->names, "dec.output_norm.weight").empty();
  return named && llm::has_weight(family->names, checkpoint, "dec.output_norm.weight");
}

T5DecoderConfig read_t5_decoder(const Checkpoint& checkpoint) {
  const Family& family = family_of(checkpoint);
  const ConfigReader fields(checkpoint);
  constexpr FieldName kLayers{"decoder_block_count", "num_decoder_layers"};
  constexpr FieldName kStart{"decoder_start_token_id", "decoder_start_token_id"};
  if (!has_t5_decoder(checkpoint)) throw bad_input("{}: the model has no decoder", checkpoint.path());
  T5DecoderConfig read{.config = family.read_config(checkpoint)};
  read.config.shape.layers = fields.size_or(kLayers, read.config.shape.layers, 1, 1 << 12);
  // T5 1.0 alone, whose head is tied. Recent files say it, others by the tie.
  constexpr FieldName kScaled{nullptr, "scale_decoder_outputs"}, kTied{nullptr, "tie_word_embeddings"};
  const bool tied = !llm::has_weight(family.names, checkpoint, "output.weight");
  read.scaled = fields.flag_or(kScaled, fields.flag_or(kTied, true) && tied);
  read.start_token = static_cast<int32_t>(fields.size_or(kStart, 0, 0, read.config.shape.vocabulary - 1));
  return read;
}

T5Model load_t5(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device, const llm::WeightOptions& options,
                DType kv_type) {
  const T5DecoderConfig read = read_t5_decoder(checkpoint);
  const llm::ModelShape& shape = read.config.shape;
  const nn::CacheLayer cached{.heads = shape.heads, .dimension = shape.head_dimension};
  nn::require_kv_type(kv_type, std::span(&cached, 1));
  const Family& family = family_of(checkpoint);
  llm::CheckpointWeights weights(checkpoint, family.names, device, options);
  return {.encoder = std::make_unique<Encoder>(family.read_config(checkpoint), weights),
          .decoder = std::make_unique<T5Decoder>(read.config, read.scaled, weights, kv_type),
          .start_token = read.start_token};
}

}  // namespace gabbro::encoder
