#include "src/models/llm/registry.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/models/llm/adapter.h"
#include "src/models/llm/config_reader.h"

namespace gabbro::llm {

extern const Family kApertus;                              // apertus.cc
extern const Family kArcee;                                // arcee.cc
extern const Family kBloom;                                // bloom.cc
extern const Family kCohere, kCohere2;                     // cohere.cc
extern const Family kDeepSeek;                             // deepseek.cc
extern const Family kDots;                                 // dots.cc
extern const Family kErnie, kErnieMoe;                     // ernie.cc
extern const Family kExaone;                               // exaone.cc
extern const Family kFalcon;                               // falcon.cc
extern const Family kFalconH1;                             // falcon_h1.cc
extern const Family kGemma, kGemma2, kGemma3;              // gemma.cc
extern const Family kGemma3n;                              // gemma3n.cc
extern const Family kGlm;                                  // glm.cc
extern const Family kGlmMoe;                               // glm_moe.cc
extern const Family kGptBigCode;                           // gpt_bigcode.cc
extern const Family kGptJ;                                 // gptj.cc
extern const Family kGptNeo;                               // gpt_neo.cc
extern const Family kGpt2;                                 // gpt2.cc
extern const Family kGptNeox;                              // gpt_neox.cc
extern const Family kGptOss;                               // gpt_oss.cc
extern const Family kGraniteHybrid;                        // granite_hybrid.cc
extern const Family kHunyuan, kHunyuanMoe;                 // hunyuan.cc
extern const Family kJamba;                                // jamba.cc
extern const Family kLfm2, kLfm2Moe;                       // lfm2.cc
extern const Family kLlama, kGranite, kGraniteMoe;         // llama.cc
extern const Family kLlama4;                               // llama4.cc
extern const Family kMamba, kMamba2;                       // mamba.cc
extern const Family kMiniMax;                              // minimax.cc
extern const Family kMistral3;                             // mistral3.cc
extern const Family kMpt;                                  // mpt.cc
extern const Family kNemotron;                             // nemotron.cc
extern const Family kNemotronH;                            // nemotron_h.cc
extern const Family kOlmo;                                 // olmo.cc
extern const Family kOlmo1;                                // olmo1.cc
extern const Family kOlmoe;                                // olmoe.cc
extern const Family kOpt;                                  // opt.cc
extern const Family kPhi;                                  // phi.cc
extern const Family kPhi3;                                 // phi3.cc
extern const Family kPhiMoe;                               // phimoe.cc
extern const Family kQwen2, kQwen3, kQwen2Moe, kQwen3Moe;  // qwen.cc
extern const Family kQwen3Next, kQwen35, kQwen35Moe;       // qwen_next.cc
extern const Family kSeedOss;                              // seed_oss.cc
extern const Family kSmolLm3;                              // smollm3.cc
extern const Family kStableLm;                             // stablelm.cc
extern const Family kStarCoder2;                           // starcoder2.cc

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {
      &kApertus,       &kArcee,      &kBloom,      &kCohere,     &kCohere2,   &kDeepSeek, &kDots,      &kErnie,
      &kErnieMoe,      &kExaone,     &kFalcon,     &kFalconH1,   &kGemma,     &kGemma3,   &kGemma2,    &kGemma3n,
      &kGlm,           &kGlmMoe,     &kGpt2,       &kGptBigCode, &kGptJ,      &kGptNeo,   &kGptNeox,   &kGptOss,
      &kHunyuan,       &kHunyuanMoe, &kJamba,      &kLfm2,       &kLfm2Moe,   &kLlama,    &kGranite,   &kGraniteMoe,
      &kGraniteHybrid, &kLlama4,     &kMamba,      &kMamba2,     &kMiniMax,   &kMistral3, &kMpt,       &kNemotron,
      &kNemotronH,     &kOlmo,       &kOlmo1,      &kOlmoe,      &kOpt,       &kPhi,      &kPhi3,      &kPhiMoe,
      &kQwen2,         &kQwen3,      &kQwen2Moe,   &kQwen3Moe,   &kQwen3Next, &kQwen35,   &kQwen35Moe, &kSeedOss,
      &kSmolLm3,       &kStableLm,   &kStarCoder2,
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
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: models of architecture {} are not supported", checkpoint.path(), gguf::quote(architecture)),
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

// For families without stages, which say so by has_stages().
Tensor LanguageModel::embed(const Step&) const { throw std::logic_error("the model has no stages"); }
Tensor LanguageModel::layer(int64_t, const Tensor&, const Step&, const nn::KvCache&) const {
  throw std::logic_error("the model has no stages");
}
Tensor LanguageModel::head(const Tensor&) const { throw std::logic_error("the model has no stages"); }

std::unique_ptr<LanguageModel> load_model(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                          const LoadModelOptions& options) {
  const Family& family = family_of(checkpoint);
  unused_layers(checkpoint, family.read_shape(checkpoint));
  for (const ScaledAdapter& one : options.adapters) check_adapter(*one.adapter, checkpoint);
  CheckpointWeights weights(checkpoint, family.names, device, options);
  std::unique_ptr<LanguageModel> model = family.build(checkpoint, weights, options.context);
  weights.require_adapters_used();
  return model;
}

}  // namespace gabbro::llm
