#include "src/engine/loading.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/file_identity.h"
#include "src/engine/conversion.h"
#include "src/engine/model_needs.h"
#include "src/engine/model_placement.h"
#include "src/engine/model_text.h"
#include "src/engine/split_facts.h"
#include "src/engine/staged/stage_loading.h"
#include "src/models/config/config_reader.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

ModelFacts describe(const Checkpoint& checkpoint, const ModelNeeds& needs) {
  ModelFacts facts;
  facts.name = needs.name;
  facts.architecture = llm::architecture_of(checkpoint);
  facts.quantization = needs.quantization;
  facts.parameters = needs.parameters;
  facts.vocabulary = needs.shape.vocabulary;
  facts.layers = needs.shape.layers;
  facts.context_trained = needs.shape.context_trained;
  facts.file_bytes = checkpoint.file_bytes();
  facts.weight_bytes = needs.weight_bytes;
  facts.bytes_per_token = needs.bytes_per_token;
  return facts;
}

// Null for "".
const FileType* type_to_quantize(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const FileType* type = find_file_type(std::string_view(name))) {
    if (!is_quantized(type->base)) throw bad_input("--quantize: {} has no blocks", type->name);
    return type;
  }
  std::string known;
  for (const FileType& type : file_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--quantize: '{}' is not known", name), "known: " + known);
}

// Files and settings by which the same tokens have the same keys and values.
std::string identity_of(const Checkpoint& checkpoint, const LoadOptions& options) {
  std::string text = fmt::format("{}; quantize '{}'", fmt::join(checkpoint.file_identities(), " "), options.quantize);
  for (const AdapterOption& adapter : options.adapters) {
    text += fmt::format("; {} {} {}", adapter.path, file_identity(adapter.path), adapter.scale);
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(adapter.path, error))
      text += " " + file_identity(file.path());
  }
  // Stored pages have the heads of all ranks, in their order.
  if (options.split == Split::kTensor && options.devices.size() > 1)
    text += fmt::format("; cut for {} devices by {}", options.devices.size(), fmt::join(options.shares, ","));
  return text;
}

}  // namespace

void begin_loading(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& loaded) {
  loaded.tokenizer = read_tokenizer_if_any(checkpoint, loaded.no_tokenizer);
  loaded.chat_templates = ModelTemplates(checkpoint, options.chat_template);
  const std::vector<std::shared_ptr<Device>> devices = staged::open_devices(options);
  if (!devices.empty()) loaded.device = devices.front();
  loaded.placement = &placement_of(options, devices.size());
  loaded.placement->take_devices(devices, loaded);
  if (loaded.device == nullptr) loaded.device = open_device(options.device, {.threads = options.threads});
  loaded.sampling = read_sampling_defaults(checkpoint);
  loaded.identity = identity_of(checkpoint, options);
}

void add_warnings_of_texts(const Checkpoint& checkpoint, LoadedModel& loaded) {
  std::vector<std::string>& warnings = loaded.facts.warnings;
  for (const std::string& note : checkpoint.notes()) warnings.push_back(checkpoint.path() + ": " + note);
  if (loaded.tokenizer != nullptr) {
    for (const std::string& warning : loaded.tokenizer->warnings())
      warnings.push_back(checkpoint.path() + ": " + warning);
    if (loaded.tokenizer->size() > loaded.facts.vocabulary) {
      throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", checkpoint.path(),
                      loaded.tokenizer->size(), loaded.facts.vocabulary);
    }
  }
  warnings.insert(warnings.end(), loaded.sampling.warnings.begin(), loaded.sampling.warnings.end());
}

void load_language_model(const Checkpoint& checkpoint, const LoadOptions& wanted, LoadedModel& loaded) {
  if (has_encoder_alone(checkpoint)) {
    throw Error(ErrorCode::kBadInput, checkpoint.path() + ": the model is a text encoder, which writes no text",
                "gabbro embed, or gabbro rerank");
  }
  const FileType* const quantize = type_to_quantize(wanted.quantize);
  const ModelNeeds needs = quantize != nullptr ? needs_of(llm::plan_of(checkpoint), *quantize) : needs_of(checkpoint);
  const bool chooses = wanted.split == Split::kAuto && wanted.devices.size() > 1;
  const LoadOptions options = chooses ? with_chosen_split(checkpoint, wanted, needs, loaded.split_note) : wanted;
  begin_loading(checkpoint, options, loaded);
  const DType kv_type = options.kv_type.value_or(DType::f16);
  nn::require_kv_type(kv_type, needs.cache);
  ModelFacts& facts = loaded.facts;
  facts = describe(checkpoint, needs);
  facts.context = context_of(needs.shape, options.context);
  facts.kv_type = kv_type;
  facts.sequences = std::max<int64_t>(1, options.sequences);
  add_warnings_of_texts(checkpoint, loaded);
  if (const std::string note = llm::unused_layers(checkpoint, needs.shape); !note.empty())
    facts.warnings.push_back(checkpoint.path() + ": " + note);
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  const llm::LoadModelOptions how{
      .context = facts.context, .check_weights = options.check_weights, .quantize = quantize, .progress = progress};
  loaded.placement->load({.checkpoint = checkpoint, .wanted = options, .needs = needs, .options = how}, loaded);
}

}  // namespace gabbro
