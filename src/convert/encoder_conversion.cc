#include "src/convert/encoder_conversion.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/models/encoder/registry.h"
#include "src/models/encoder/t5_decoder.h"
#include "src/models/weights/weight_list.h"

namespace gabbro::encoder {
namespace {

constexpr std::pair<Pooling, uint32_t> kNumbers[] = {
    {Pooling::kNone, 0}, {Pooling::kMean, 1}, {Pooling::kCls, 2}, {Pooling::kLast, 3}, {Pooling::kRank, 4}};

void write_sizes(const EncoderConfig& config, llm::GgufFields& fields) {
  const ModelShape& s = config.shape;
  fields.size("block_count", s.layers);
  fields.size("context_length", s.context_trained);
  fields.size("embedding_length", s.embedding);
  fields.size("feed_forward_length", s.feed_forward);
  fields.size("attention.head_count", s.heads);
  if (config.experts_every > 0) {
    fields.size("moe_every_n_layers", config.experts_every);
    fields.size("expert_count", s.experts);
    fields.size("expert_used_count", s.experts_used);
  }
  if (s.head_dimension * s.heads != s.embedding || config.norm == NormKind::kRms) {
    fields.size("attention.key_length", s.head_dimension);
    fields.size("attention.value_length", s.head_dimension);
  }
  fields.size("vocab_size", s.vocabulary);
  fields.number(config.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                config.norm_epsilon);
}

void write_layers(const EncoderConfig& config, llm::GgufFields& fields) {
  if (config.rotated) fields.number("rope.freq_base", config.rope.base);
  if (config.rotated) fields.size("rope.dimension_count", config.rope.dimensions);
  if (config.local_rope) fields.number("rope.freq_base_swa", config.local_rope->base);
  if (config.bias == DistanceBias::kAlibi) fields.number("attention.max_alibi_bias", config.largest_alibi_exponent);
  if (config.bias == DistanceBias::kBuckets) fields.size("attention.relative_buckets_count", config.buckets.count);
  const auto widest = std::ranges::max_element(config.layers, {}, &EncoderLayer::window);
  if (widest == config.layers.end() || widest->window == 0) return;
  fields.size("attention.sliding_window", 2 * widest->window);
  std::vector<bool> local;
  for (const EncoderLayer& layer : config.layers) local.push_back(layer.window > 0);
  fields.writer.add_bools(fields.architecture + ".attention.sliding_window_pattern", local);
}

void write_encoder_fields(const EncoderConfig& config, llm::GgufFields& fields) {
  write_sizes(config, fields);
  write_layers(config, fields);
  if (config.token_types > 0)
    fields.writer.add_u32("tokenizer.ggml.token_type_count", static_cast<uint32_t>(config.token_types));
}

// Refuses choices that GGUF files of the architecture do not say.
void check_unsaid(const Checkpoint& checkpoint, const Family& family, const EncoderConfig& config) {
  const auto refuse = [&](const char* what) {
    throw bad_input("{}: {}, which GGUF files cannot say", checkpoint.path(), what);
  };
  const bool is_bert = family.architectures.front() == "bert";
  if (config.activation != config.usual_activation) refuse("the feed-forward block has another activation");
  if (config.bias == DistanceBias::kBuckets && config.buckets.farthest != BucketConfig().farthest)
    refuse("relative_attention_max_distance is not 128");
  if (is_bert && config.head.labels > 0 && config.head.activation != Activation::kTanh)
    refuse("the classifier has another activation");
  if (family.architectures.front() == "modern-bert" && config.head.labels > 0 && config.head.pooling != Pooling::kMean)
    refuse("the classifier takes the first token's state");
}

}  // namespace

std::optional<uint32_t> gguf_number(Pooling pooling) {
  for (const auto& [known, number] : kNumbers) {
    if (known == pooling) return number;
  }
  return std::nullopt;
}

std::optional<Pooling> pooling_of_gguf_number(uint32_t number) {
  for (const auto& [pooling, known] : kNumbers) {
    if (known == number) return pooling;
  }
  return std::nullopt;
}

llm::Convertible convertible(const Checkpoint& checkpoint, Pooling pooling) {
  const Family& family = family_of(checkpoint);
  const std::optional<uint32_t> number = gguf_number(pooling);
  if (!family.in_gguf) {
    throw bad_input("{}: GGUF has no models of architecture '{}'", checkpoint.path(), family.architectures.front());
  }
  if (!number) throw bad_input("{}: GGUF has no name for the model's pooling", checkpoint.path());
  const EncoderConfig config = family.read_config(checkpoint);
  check_unsaid(checkpoint, family, config);
  llm::WeightList list([&](const std::string& name) { return llm::has_weight(family.names, checkpoint, name); });
  const Encoder asks(config, list);
  llm::Convertible model{.architecture = std::string(family.architectures.front()), .names = family.names};
  if (!config.architecture.empty()) model.architecture = config.architecture;
  std::optional<T5DecoderConfig> decoder;
  if (has_t5_decoder(checkpoint)) {
    decoder = read_t5_decoder(checkpoint);
    if (decoder->scaled != !list.has("output.weight"))
      throw bad_input("{}: scale_decoder_outputs differs from a tied head's, which GGUF files cannot say",
                      checkpoint.path());
    const T5Decoder asks_too(decoder->config, decoder->scaled, list);
    model.architecture = "t5";
  }
  model.plan.sizes = config.shape;
  model.plan.tensors.assign(list.tensors().begin(), list.tensors().end());
  for (llm::RequestedTensor& tensor : model.plan.tensors) {
    // Small tables; blocks would save nothing.
    if (tensor.name == "position_embd.weight" || tensor.name == "token_types.weight") tensor.in_f32 = true;
  }
  model.write_fields = [&family, &checkpoint, config, number, decoder](llm::GgufFields& fields) {
    if (family.write_fields != nullptr) {
      family.write_fields(checkpoint, fields);
    } else {
      write_encoder_fields(config, fields);
    }
    if (decoder) {
      fields.size("decoder_block_count", decoder->config.shape.layers);
      fields.size("decoder_start_token_id", decoder->start_token);
    }
    fields.writer.add_bool(fields.architecture + ".attention.causal", config.causal);
    fields.size("pooling_type", *number);
  };
  return model;
}

}  // namespace gabbro::encoder
