#include "src/models/llm/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "src/base/error.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/quant/quant.h"
#include "src/formats/random_file.h"
#include "src/models/config/rope_config.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/registry.h"
#include "src/models/weights/counted_tensors.h"
#include "src/models/weights/weight_list.h"

namespace gabbro::llm {
namespace {

// Trained matrices have about this; sums over some thousand elements then stay near 1.
constexpr float kDeviation = 0.02f;
// Tokens stay the larger part of the hidden states, as in trained models: else the average that attention gives all of
// them chooses the same experts for each.
constexpr float kEmbeddingDeviation = 1;
constexpr const char *kHead = "output.weight", *kRopeDivisors = "rope_freqs.weight";

gguf::Writer fields_of(const Blueprint& blueprint) {
  const ModelShape& s = blueprint.sizes;
  gguf::Writer writer(gguf::kPageAlignment);
  const auto key = [&](const char* name) { return blueprint.architecture + "." + name; };
  const auto size = [&](const char* name, int64_t value) { writer.add_u32(key(name), static_cast<uint32_t>(value)); };
  writer.add_string("general.architecture", blueprint.architecture);
  writer.add_string("general.name", blueprint.name);
  size("block_count", s.layers);
  size("context_length", s.context_trained);
  size("embedding_length", s.embedding);
  size("feed_forward_length", s.feed_forward);
  if (s.experts > 0) {
    size("expert_count", s.experts);
    size("expert_used_count", s.experts_used);
    size("expert_feed_forward_length", s.expert_feed_forward);
  }
  size("attention.head_count", s.heads);
  size("attention.head_count_kv", s.kv_heads);
  size("attention.key_length", s.head_dimension);
  size("attention.value_length", s.head_dimension);
  writer.add_f32(key("attention.layer_norm_rms_epsilon"), blueprint.norm_epsilon);
  size("rope.dimension_count", s.head_dimension);
  writer.add_f32(key("rope.freq_base"), blueprint.rope_base);
  writer.add_string("tokenizer.ggml.model", "none");
  return writer;
}

// Tensors that some models of a family have, and others have another way or not at all.
bool is_alternative(const std::string& name) {
  return name.ends_with(".attn_qkv.weight") || name.ends_with(".attn_kv_b.weight") || name.ends_with("_shexp.weight") ||
         name.starts_with("rope_factors_") || name == kRopeDivisors || name.ends_with(".ssm_in.weight") ||
         name.ends_with(".ssm_dt_norm.weight") || name.ends_with(".ssm_b_norm.weight") ||
         name.ends_with(".ssm_c_norm.weight") || name.ends_with(".bias");
}

// The model of a published config.json. Families look for one tensor while they read sizes: the vocabulary's.
Checkpoint config_of(const Blueprint& blueprint) {
  const Checkpoint config = Checkpoint::of_config(blueprint.name, blueprint.config, {});
  const auto vocabulary = static_cast<int64_t>(config.metadata().require_u32("vocab_size"));
  const std::pair<std::string, std::vector<int64_t>> table = {weight_name(family_of(config).names, config, kEmbeddings),
                                                              {vocabulary, 1}};
  return Checkpoint::of_config(blueprint.name, blueprint.config, {&table, 1});
}

// Whether a published model has a tensor.
bool has_published_tensor(const Blueprint& blueprint, bool tied, const std::string& name) {
  if (name == kHead) return !tied;
  if (name.ends_with(".ffn_gate_inp.weight")) {
    const int64_t after = std::stoll(name.substr(4)) - blueprint.first_mixture;
    return after >= 0 && after % blueprint.mixture_step == 0;
  }
  for (const std::string& present : blueprint.present) {
    if (name.ends_with(present)) return true;
  }
  return !is_alternative(name);
}

bool has_tensor(const Blueprint& blueprint, const std::string& name) {
  if (name == kHead) return !blueprint.tied;
  if (name == kRopeDivisors) return blueprint.rope_factor != 1;
  if (name.ends_with(".ffn_gate_inp.weight")) return blueprint.sizes.experts > 0;
  return !is_alternative(name);
}

// The exponents of a state space, which have to be negative for its states to stay finite.
bool is_decay(const PlannedTensor& tensor) { return tensor.name.ends_with(".ssm_a"); }

// The fields of a published model's file, as `convert` writes them. `tables`: further tensors.
gguf::Writer fields_of_config(const Blueprint& blueprint, const ModelPlan& plan,
                              std::map<std::string, std::vector<float>>& tables) {
  gguf::Writer writer(gguf::kPageAlignment);
  const Checkpoint config = config_of(blueprint);
  const Family& family = family_of(config);
  GgufFields fields{.writer = writer, .architecture = std::string(family.architectures.front())};
  writer.add_string("general.architecture", fields.architecture);
  writer.add_string("general.name", blueprint.name);
  note_mixtures(plan, fields);
  family.write_fields(config, fields);
  writer.add_string("tokenizer.ggml.model", "none");
  tables = std::move(fields.tables);
  return writer;
}

std::vector<float> rope_divisors(const Blueprint& blueprint) {
  constexpr double kOriginalContext = 8192, kLow = 1, kHigh = 4;  // of Llama 3
  return llama3_divisors(blueprint.sizes.head_dimension, blueprint.rope_base, blueprint.rope_factor, kLow, kHigh,
                         kOriginalContext);
}

ModelPlan plan(const Checkpoint& checkpoint, std::function<bool(const std::string&)> has) {
  const Family& family = family_of(checkpoint);
  WeightList list(std::move(has));
  ModelPlan plan{.name = std::string(checkpoint.metadata().string_or("general.name", ""))};
  const std::unique_ptr<LanguageModel> model = family.build(checkpoint, list, 0);
  plan.sizes = model->shape();
  plan.cache = model->cache_spec();
  plan.tensors.assign(list.tensors().begin(), list.tensors().end());
  plan.tied = std::ranges::none_of(plan.tensors, [](const RequestedTensor& t) { return t.name == kHead; });
  if (plan.name.empty()) plan.name = std::filesystem::path(checkpoint.path()).stem().string();
  return plan;
}

// The role of "blk.12.attn_v.weight" and its layer.
MixtureTensor role_of(const RequestedTensor& tensor) {
  static const std::map<std::string_view, TensorRole> kRoles = {
      {"token_embd", TensorRole::kTokenEmbedding}, {"output", TensorRole::kOutput},
      {"attn_q", TensorRole::kAttentionQ},         {"attn_k", TensorRole::kAttentionK},
      {"attn_v", TensorRole::kAttentionV},         {"attn_output", TensorRole::kAttentionOutput},
      {"ffn_gate", TensorRole::kFfnGate},          {"ffn_up", TensorRole::kFfnUp},
      {"ffn_down", TensorRole::kFfnDown},          {"ffn_gate_exps", TensorRole::kFfnGate},
      {"ffn_up_exps", TensorRole::kFfnUp},         {"ffn_down_exps", TensorRole::kFfnDown},
      {"ffn_gate_shexp", TensorRole::kFfnGate},    {"ffn_up_shexp", TensorRole::kFfnUp},
      {"ffn_down_shexp", TensorRole::kFfnDown}};
  MixtureTensor out{.columns = tensor.shape.back()};
  std::string_view name = tensor.name;
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    std::from_chars(name.data(), name.data() + name.size(), out.layer);
    name.remove_prefix(name.find('.') + 1);
  }
  const auto role = kRoles.find(name);
  out.role = role != kRoles.end() ? role->second : TensorRole::kFfnUp;  // which no mixture excepts
  return out;
}

}  // namespace

void note_mixtures(const ModelPlan& plan, GgufFields& fields) {
  fields.mixed_layers.assign(static_cast<size_t>(plan.sizes.layers), false);
  for (const RequestedTensor& tensor : plan.tensors) {
    int layer = 0;
    if (std::sscanf(tensor.name.c_str(), "blk.%d.", &layer) != 1 || layer >= plan.sizes.layers) continue;
    if (tensor.name.ends_with(".ffn_gate_inp.weight")) fields.mixed_layers[static_cast<size_t>(layer)] = true;
    if (tensor.name.ends_with(".ffn_down_shexp.weight")) fields.has_shared_expert = true;
  }
}

uint64_t bytes_read(const ExpertsSize& experts, uint64_t bytes) {
  if (experts.experts == 0) return bytes;
  return bytes * static_cast<uint64_t>(experts.used) / static_cast<uint64_t>(experts.experts);
}

ModelPlan plan_of(const Checkpoint& checkpoint) {
  const std::span<const WeightName> names = family_of(checkpoint).names;
  unused_layers(checkpoint, read_shape(checkpoint));
  const CountedTensors counted(names, checkpoint);
  return plan(checkpoint, [&](const std::string& name) { return counted.has(name); });
}

ModelPlan plan_of(const Blueprint& blueprint) {
  if (!blueprint.config.empty()) {
    const Checkpoint config = config_of(blueprint);
    const bool tied = config.metadata().bool_or("tie_word_embeddings", false);
    ModelPlan published =
        plan(config, [&](const std::string& name) { return has_published_tensor(blueprint, tied, name); });
    published.name = blueprint.name;
    return published;
  }
  gguf::Writer writer = fields_of(blueprint);
  // The only tensor that families look for while they read sizes: the vocabulary's.
  const int64_t embeddings[] = {blueprint.sizes.vocabulary, 1};
  writer.declare_tensor(kEmbeddings, gguf::ggml_type_number(DType::f32), embeddings);
  const Checkpoint header = gguf::random_file(blueprint.name, writer, kDeviation, 0);
  return plan(header, [&](const std::string& name) { return has_tensor(blueprint, name); });
}

std::vector<PlannedTensor> planned_tensors(const ModelPlan& plan, const FileType& type) {
  const ModelShape& s = plan.sizes;
  const MixtureModel model{.layers = s.layers, .heads = s.heads, .kv_heads = s.kv_heads, .tied = plan.tied};
  std::vector<PlannedTensor> tensors;
  for (const RequestedTensor& tensor : plan.tensors) {
    const bool in_f32 = tensor.in_f32 || tensor.shape.size() < 2;
    MixtureTensor role = role_of(tensor);
    const DType dtype = in_f32 ? DType::f32 : mixture_dtype(type, role, model);
    role.columns = 0;  // fits any blocks
    const DType asked = in_f32 ? DType::f32 : mixture_dtype(type, role, model);
    tensors.push_back({tensor.name, tensor.shape, dtype, tensor.experts, asked});
  }
  return tensors;
}

Formats planned_formats(const Checkpoint& checkpoint, const FileType* type) {
  Formats formats;
  if (type == nullptr) return formats;
  const auto require_no_importance = [&](bool needed) {
    if (!needed) return;
    throw Error(ErrorCode::kBadInput, fmt::format("--quantize {} needs an importance matrix", type->name),
                "gabbro convert --imatrix makes a file with one");
  };
  require_no_importance(needs_importance(*type));
  for (PlannedTensor& tensor : planned_tensors(plan_of(checkpoint), *type)) {
    if (tensor.shape.size() < 2) continue;
    require_no_importance(needs_importance(*type, tensor.name, tensor.dtype));
    if (is_quantized(tensor.dtype) && quant_format(tensor.dtype).encode == nullptr)
      throw Error(ErrorCode::kBadInput, fmt::format("there is no encoder for {}", dtype_name(tensor.dtype)),
                  "choose another --quantize");
    formats.emplace(tensor.name, std::move(tensor));
  }
  return formats;
}

Checkpoint random_checkpoint(const Blueprint& blueprint, const FileType& type, uint64_t seed) {
  const ModelPlan model = plan_of(blueprint);
  std::map<std::string, std::vector<float>> tables;
  gguf::Writer writer = blueprint.config.empty() ? fields_of(blueprint) : fields_of_config(blueprint, model, tables);
  writer.add_u32("general.file_type", type.number);
  for (const auto& [name, values] : tables) {
    const int64_t shape[] = {std::ssize(values)};
    writer.add_tensor(name, gguf::ggml_type_number(DType::f32), shape, std::as_bytes(std::span(values)));
  }
  const std::vector<PlannedTensor> tensors = planned_tensors(model, type);
  int64_t longest = 1;
  for (const PlannedTensor& tensor : tensors) {
    if (tensor.shape.size() < 2 || is_decay(tensor)) longest = std::max(longest, tensor.elements());
  }
  const std::vector<float> ones(static_cast<size_t>(longest), 1.0f), decays(static_cast<size_t>(longest), -1.0f);
  const std::vector<float> divisors = rope_divisors(blueprint);
  for (const PlannedTensor& tensor : tensors) {
    const uint32_t number = gguf::ggml_type_number(tensor.dtype);
    if (is_decay(tensor)) {
      writer.add_tensor(tensor.name, number, tensor.shape,
                        std::as_bytes(std::span(decays).first(static_cast<size_t>(tensor.elements()))));
    } else if (tensor.shape.size() >= 2) {
      writer.declare_tensor(tensor.name, number, tensor.shape);
    } else {
      const std::span<const float> values = tensor.name == kRopeDivisors ? divisors : ones;
      writer.add_tensor(tensor.name, number, tensor.shape,
                        std::as_bytes(values.first(static_cast<size_t>(tensor.elements()))));
    }
  }
  // A head that is tied to them would find nothing but the last token again.
  const bool has_head = std::ranges::find(tensors, kHead, &PlannedTensor::name) != tensors.end();
  const auto deviation_of = [&](const std::string& tensor) {
    return has_head && tensor == kEmbeddings ? kEmbeddingDeviation : kDeviation;
  };
  return gguf::random_file(blueprint.name, writer, deviation_of, seed);
}

}  // namespace gabbro::llm
