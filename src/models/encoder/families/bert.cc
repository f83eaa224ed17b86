// BERT, and RoBERTa with XLM-RoBERTa, whose table of positions begins with rows that are not used and whose classifier
// has a dense layer in place of BERT's pooler.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kBertNames[] = {"bert"};
constexpr std::string_view kRobertaNames[] = {"bert", "roberta", "xlm-roberta", "camembert"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk.{}.attn_qkv", "encoder.layer.{}.attention.self.Wqkv"},
    {"blk.{}.attn_q", "encoder.layer.{}.attention.self.query"},
    {"blk.{}.attn_k", "encoder.layer.{}.attention.self.key"},
    {"blk.{}.attn_v", "encoder.layer.{}.attention.self.value"},
    {"blk.{}.attn_output", "encoder.layer.{}.attention.output.dense"},
    {"blk.{}.attn_output_norm", "encoder.layer.{}.attention.output.LayerNorm"},
    {"blk.{}.ffn_up", "encoder.layer.{}.intermediate.dense"},
    {"blk.{}.ffn_down", "encoder.layer.{}.output.dense"},
    {"blk.{}.layer_output_norm", "encoder.layer.{}.output.LayerNorm"},
    {"cls.norm", "classifier.norm"},
};
constexpr WeightName kBertHead[] = {{"cls", "pooler.dense"}, {"cls.output", "classifier"}};
constexpr WeightName kRobertaHead[] = {{"cls", "classifier.dense"}, {"cls.output", "classifier.out_proj"}};
constexpr auto kBertWeights = llm::with_names(kBertHead, kNames);
constexpr auto kRobertaWeights = llm::with_names(kRobertaHead, kNames);

EncoderConfig read_any(const ConfigReader& fields, std::span<const WeightName> names) {
  constexpr FieldName kTasks{nullptr, "lora_adaptations"};  // jina-embeddings-v3
  if (fields.has(kTasks)) fields.refuse(kTasks, "is there: weights with adapters for tasks are not supported");
  EncoderConfig config = read_encoder_config(fields, names);
  constexpr FieldName kPositions{nullptr, "position_embedding_type"}, kDecoder{nullptr, "is_decoder"};
  if (const std::string kind = fields.text_or(kPositions, "absolute"); kind != "absolute")
    fields.refuse(kPositions, "is '" + kind + "', expected absolute");
  if (fields.flag_or(kDecoder, false)) fields.refuse(kDecoder, "is true: only encoders of this architecture run");
  config.learned_positions = true;
  config.token_types = read_rows(fields, names, "token_types.weight");
  config.head.labels = read_rows(fields, names, "cls.output.weight");
  // GGUF files of RoBERTa are files of BERT with another tokenizer.
  if (!fields.is_hugging_face() && fields.checkpoint().metadata().string_or("tokenizer.ggml.model", "bert") != "bert")
    config.separators = 2;
  return config;
}

EncoderConfig read_bert(const Checkpoint& checkpoint) { return read_any(ConfigReader(checkpoint), kBertWeights); }

EncoderConfig read_roberta(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_any(fields, kRobertaWeights);
  // The first token's position is the padding token's id and 1.
  constexpr FieldName kPadding{nullptr, "pad_token_id"}, kContext{nullptr, "max_position_embeddings"};
  config.position_offset = fields.size_or(kPadding, 1, 0, 1 << 20) + 1;
  if (config.position_offset >= config.shape.context_trained) fields.refuse(kContext, "leaves no position to use");
  config.shape.context_trained -= config.position_offset;
  config.separators = 2;
  return config;
}

}  // namespace

extern const Family kBert, kRoberta;
const Family kBert{.architectures = kBertNames, .names = kBertWeights, .read_config = read_bert};
const Family kRoberta{.architectures = kRobertaNames, .names = kRobertaWeights, .read_config = read_roberta};

}  // namespace gabbro::encoder
