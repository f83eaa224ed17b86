#include "src/models/llm/registry.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "src/backend/device.h"
#include "src/backend/memory_block.h"
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/models/config/config_reader.h"
#include "src/models/llm/model_plan.h"
#include "src/models/weights/adapted_weights.h"
#include "src/models/weights/host_block_weights.h"
#include "src/models/weights/load_formats.h"
#include "src/models/weights/observed_weights.h"
#include "src/models/weights/ranged_weights.h"
#include "src/models/weights/shard_sizes.h"
#include "src/models/weights/sharded_weights.h"
#include "src/models/weights/streamed_source.h"

namespace gabbro::llm {

// Each file of families/ has its own namespace.
// clang-format off
namespace apertus { extern const Family kApertus; }
namespace arcee { extern const Family kArcee; }
namespace bloom { extern const Family kBloom; }
namespace cohere { extern const Family kCohere, kCohere2; }
namespace deepseek { extern const Family kDeepSeek; }
namespace dots { extern const Family kDots; }
namespace ernie { extern const Family kErnie, kErnieMoe; }
namespace exaone { extern const Family kExaone; }
namespace falcon { extern const Family kFalcon; }
namespace falcon_h1 { extern const Family kFalconH1; }
namespace gemma { extern const Family kGemma, kGemma2, kGemma3; }
namespace gemma3n { extern const Family kGemma3n; }
namespace glm { extern const Family kGlm; }
namespace glm_moe { extern const Family kGlmMoe; }
namespace gpt_bigcode { extern const Family kGptBigCode; }
namespace gptj { extern const Family kGptJ; }
namespace gpt_neo { extern const Family kGptNeo; }
namespace gpt2 { extern const Family kGpt2; }
namespace gpt_neox { extern const Family kGptNeox; }
namespace gpt_oss { extern const Family kGptOss; }
namespace granite_hybrid { extern const Family kGraniteHybrid; }
namespace hunyuan { extern const Family kHunyuan, kHunyuanMoe; }
namespace jamba { extern const Family kJamba; }
namespace lfm2 { extern const Family kLfm2, kLfm2Moe; }
namespace llama { extern const Family kLlama, kGranite, kGraniteMoe; }
namespace llama4 { extern const Family kLlama4; }
namespace mamba { extern const Family kMamba, kMamba2; }
namespace minimax { extern const Family kMiniMax; }
namespace mistral3 { extern const Family kMistral3; }
namespace mpt { extern const Family kMpt; }
namespace nemotron { extern const Family kNemotron; }
namespace nemotron_h { extern const Family kNemotronH; }
namespace olmo { extern const Family kOlmo; }
namespace olmo1 { extern const Family kOlmo1; }
namespace olmoe { extern const Family kOlmoe; }
namespace opt { extern const Family kOpt; }
namespace phi { extern const Family kPhi; }
namespace phi3 { extern const Family kPhi3; }
namespace phimoe { extern const Family kPhiMoe; }
namespace qwen { extern const Family kQwen2, kQwen3, kQwen2Moe, kQwen3Moe; }
namespace qwen_next { extern const Family kQwen3Next, kQwen35, kQwen35Moe; }
namespace seed_oss { extern const Family kSeedOss; }
namespace smollm3 { extern const Family kSmolLm3; }
namespace stablelm { extern const Family kStableLm; }
namespace starcoder2 { extern const Family kStarCoder2; }
// clang-format on

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &apertus::kApertus,
      &arcee::kArcee,
      &bloom::kBloom,
      &cohere::kCohere,
      &cohere::kCohere2,
      &deepseek::kDeepSeek,
      &dots::kDots,
      &ernie::kErnie,
      &ernie::kErnieMoe,
      &exaone::kExaone,
      &falcon::kFalcon,
      &falcon_h1::kFalconH1,
      &gemma::kGemma,
      &gemma::kGemma3,
      &gemma::kGemma2,
      &gemma3n::kGemma3n,
      &glm::kGlm,
      &glm_moe::kGlmMoe,
      &gpt2::kGpt2,
      &gpt_bigcode::kGptBigCode,
      &gptj::kGptJ,
      &gpt_neo::kGptNeo,
      &gpt_neox::kGptNeox,
      &gpt_oss::kGptOss,
      &hunyuan::kHunyuan,
      &hunyuan::kHunyuanMoe,
      &jamba::kJamba,
      &lfm2::kLfm2,
      &lfm2::kLfm2Moe,
      &llama::kLlama,
      &llama::kGranite,
      &llama::kGraniteMoe,
      &granite_hybrid::kGraniteHybrid,
      &llama4::kLlama4,
      &mamba::kMamba,
      &mamba::kMamba2,
      &minimax::kMiniMax,
      &mistral3::kMistral3,
      &mpt::kMpt,
      &nemotron::kNemotron,
      &nemotron_h::kNemotronH,
      &olmo::kOlmo,
      &olmo1::kOlmo1,
      &olmoe::kOlmoe,
      &opt::kOpt,
      &phi::kPhi,
      &phi3::kPhi3,
      &phimoe::kPhiMoe,
      &qwen::kQwen2,
      &qwen::kQwen3,
      &qwen::kQwen2Moe,
      &qwen::kQwen3Moe,
      &qwen_next::kQwen3Next,
      &qwen_next::kQwen35,
      &qwen_next::kQwen35Moe,
      &seed_oss::kSeedOss,
      &smollm3::kSmolLm3,
      &stablelm::kStableLm,
      &starcoder2::kStarCoder2,
  };
  return kFamilies;
}

const Family* find_family(std::string_view architecture) {
  const auto found = std::ranges::find_if(families(), [&](const Family* family) {
    return std::ranges::find(family->architectures, architecture) != family->architectures.end();
  });
  return found != families().end() ? *found : nullptr;
}

std::string known_architectures() {
  std::string known;
  for (const Family* family : families()) {
    for (const std::string_view name : family->architectures) known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return known;
}

const Family& family_of(const Checkpoint& checkpoint) {
  const std::string architecture = architecture_of(checkpoint);
  if (const Family* family = find_family(architecture)) return *family;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: models of architecture {} are not supported", checkpoint.path(), quote(architecture)),
              "supported: " + known_architectures());
}

namespace {

// Layers with a tensor, by the family's names of them.
int64_t stored_layers(const Checkpoint& checkpoint, std::span<const WeightName> names) {
  int64_t layers = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    for (const WeightName& name : names) {
      const std::string_view pattern = name.hugging_face;
      const size_t at = pattern.find("{}");
      if (at == pattern.npos || !tensor.name.starts_with(pattern.substr(0, at))) continue;
      int64_t layer = -1;
      std::from_chars(tensor.name.data() + at, tensor.name.data() + tensor.name.size(), layer);
      layers = std::max(layers, std::min<int64_t>(layer, 1 << 20) + 1);
    }
  }
  return layers;
}

}  // namespace

std::string unused_layers(const Checkpoint& checkpoint, const ModelShape& shape) {
  if (checkpoint.layout() != CheckpointLayout::kHuggingFace) return "";
  const int64_t stored = stored_layers(checkpoint, family_of(checkpoint).names);
  if (stored == 0 || stored == shape.layers) return "";
  const FieldName kLayers{nullptr, "num_hidden_layers|n_layer|num_layers|n_layers"};
  if (stored < shape.layers)
    ConfigReader(checkpoint).refuse(kLayers, fmt::format("is {}, the files hold {} layers", shape.layers, stored));
  // Layers that predict further tokens follow the others.
  const Metadata& fields = checkpoint.metadata();
  for (const char* name : {"num_nextn_predict_layers", "text_config.num_nextn_predict_layers"}) {
    if (fields.has(name) && stored <= shape.layers + static_cast<int64_t>(fields.require_u32(name))) return "";
  }
  return fmt::format("the model has {} layers by its config.json, the files hold {}: those after are not used",
                     shape.layers, stored);
}

ModelShape read_shape(const Checkpoint& checkpoint) { return family_of(checkpoint).read_shape(checkpoint); }

namespace {

[[noreturn]] void refuse_stages() {
  throw bad_input("a model of this architecture is computed as a whole: it has no outputs of single layers");
}

}  // namespace

// Models without stages have these three; has_stages() says so.
Tensor LanguageModel::embed(const Step&) const { refuse_stages(); }
Tensor LanguageModel::layer(int64_t, const Tensor&, const Step&, const nn::KvCache&) const { refuse_stages(); }
Tensor LanguageModel::head(const Tensor&) const { refuse_stages(); }

void check_adapter(const Adapter& adapter, const Checkpoint& checkpoint) {
  if (!adapter.architecture().empty()) check_adapter(adapter, family_of(checkpoint).architectures);
}

namespace {

HeadSizes head_sizes(const Checkpoint& checkpoint, const ModelShape& shape) {
  return {architecture_of(checkpoint), shape.heads, shape.kv_heads, shape.head_dimension};
}

// Builds the model of one device's part without tensors. `bytes` of a matrix are counted.
ShardNeeds build_shard(const Checkpoint& checkpoint, const Family& family, const TensorShard& shard, int64_t context,
                       const Formats& planned,
                       const std::function<size_t(DType dtype, int64_t rows, int64_t columns)>& bytes) {
  const CountedTensors counted(family.names, checkpoint);
  const auto format = [&](const std::string& name) {
    return format_on_device(checkpoint, family.names, planned, name);
  };
  const auto has = [&](const std::string& name) { return counted.has(name); };
  ShardSizes sizes({.has = has, .format = format, .bytes = bytes});
  const auto block_of = [&](const std::string& name) { return dtype_info(format(name)).block_elements; };
  ShardedWeights sharded(sizes, shard, head_sizes(checkpoint, family.read_shape(checkpoint)), block_of);
  const std::unique_ptr<LanguageModel> model = family.build(checkpoint, sharded, context);
  return {.weight_bytes = sizes.bytes(), .cache = model->cache_spec()};
}

}  // namespace

ShardNeeds needs_of_shard(const Checkpoint& checkpoint, const TensorShard& shard, int64_t context) {
  const auto bytes = [](DType dtype, int64_t rows, int64_t columns) {
    return dtype_bytes(dtype, static_cast<size_t>(rows * columns));
  };
  return build_shard(checkpoint, family_of(checkpoint), shard, context, {}, bytes);
}

std::unique_ptr<LanguageModel> load_model(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                          const LoadModelOptions& options) {
  const Family& family = family_of(checkpoint);
  unused_layers(checkpoint, family.read_shape(checkpoint));
  for (const ScaledAdapter& one : options.adapters) check_adapter(*one.adapter, checkpoint);
  WeightOptions stored{.check_values = options.check_weights,
                       .quantize = planned_formats(checkpoint, options.quantize),
                       .progress = options.progress,
                       .layers = options.layers};
  if (options.streamed != nullptr) stored.resident_bytes = options.streamed->resident_bytes();
  if (options.shard != nullptr) {
    const auto bytes = [&](DType dtype, int64_t rows, int64_t columns) {
      return MemoryBlock::rounded(device->matrix_bytes(dtype, rows, columns));
    };
    stored.shard_bytes =
        build_shard(checkpoint, family, *options.shard, options.context, stored.quantize, bytes).weight_bytes;
  }

  CheckpointWeights weights(checkpoint, family.names, device, stored);
  std::optional<StreamedSource> streamed;
  std::optional<ShardedWeights> sharded;
  std::optional<RangedWeights> ranged;
  std::optional<AdaptedWeights> adapted;
  std::optional<ObservedWeights> observed;
  WeightSource* source = &weights;
  if (options.shard != nullptr) {
    source =
        &sharded.emplace(*source, *options.shard, head_sizes(checkpoint, family.read_shape(checkpoint)),
                         [&](const std::string& name) { return dtype_info(weights.format_of(name)).block_elements; });
  }
  if (options.streamed != nullptr) source = &streamed.emplace(weights, *options.streamed);
  if (!options.adapters.empty()) source = &adapted.emplace(*source, family.names, options.adapters);
  if (options.observer != nullptr) source = &observed.emplace(*source, options.observer);
  if (options.layers != nullptr) source = &ranged.emplace(*source, *options.layers);
  std::unique_ptr<LanguageModel> model = family.build(checkpoint, *source, options.context);
  if (adapted) adapted->require_used();
  if (options.streamed != nullptr) {
    HostBlockWeights host(checkpoint, family.names, *options.streamed, options.check_weights);
    model->add_host_blocks(host);
  }
  return model;
}

}  // namespace gabbro::llm
