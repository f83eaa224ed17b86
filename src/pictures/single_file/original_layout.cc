#include "src/pictures/single_file/original_layout.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/transposed_tensor.h"
#include "src/pictures/single_file/name_table.h"
#include "src/pictures/single_file/part_configs.h"
#include "src/pictures/text_states.h"

namespace gabbro::pictures {
namespace {

constexpr std::string_view kTextModel = "text_model.", kProjection = "text_projection.weight";
constexpr int64_t kMostTextLayers = 1024;

[[noreturn]] void refuse_name(const Checkpoint& part, std::string_view name) {
  throw bad_input("{}: tensor {} has no name in a single file", part.path(), quote(name));
}

bool is_xl(const PipelineParts& parts) { return parts.text_encoders.size() == 2; }

// Stable Diffusion 2 and the second encoder of SDXL are OpenCLIP's.
bool uses_matrices(const PipelineParts& parts) {
  return JsonNode(parts.unet.config, parts.unet.config_name).boolean_or("use_linear_projection", false);
}

void add_unet(const PipelinePart& part, std::vector<OriginalTensor>& out) {
  const NameTable table = NameTable::of_unet(unet_layout(part.config, part.config_name));
  for (const CheckpointTensor& tensor : part.checkpoint.tensors()) {
    const auto name = table.to_original(tensor.name);
    if (!name) refuse_name(part.checkpoint, tensor.name);
    out.push_back({.name = "model.diffusion_model." + *name, .sources = {tensor}});
  }
}

void add_autoencoder(const PipelinePart& part, std::vector<OriginalTensor>& out) {
  const JsonNode widths = JsonNode(part.config, part.config_name).at("block_out_channels");
  const NameTable table = NameTable::of_autoencoder(std::ssize(widths.elements()));
  for (const CheckpointTensor& tensor : part.checkpoint.tensors()) {
    const auto name = table.to_original(tensor.name);
    if (!name) refuse_name(part.checkpoint, tensor.name);
    CheckpointTensor stored = tensor;
    const bool is_projection = name->find(".mid.attn_1.") != name->npos && stored.shape.size() == 2;
    if (is_projection) stored.shape.insert(stored.shape.end(), {1, 1});  // convolutions there
    out.push_back({.name = "first_stage_model." + *name, .sources = {std::move(stored)}});
  }
}

// The name as transformers 4 has it.
std::string name_in_text_model(std::string_view name) {
  const bool is_whole = name.starts_with(kTextModel) || name == kProjection;
  return is_whole ? std::string(name) : std::string(kTextModel) + std::string(name);
}

void add_clip(const Checkpoint& part, const std::string& prefix, std::vector<OriginalTensor>& out) {
  for (const CheckpointTensor& tensor : part.tensors()) {
    if (tensor.name.ends_with("position_ids")) continue;
    out.push_back({.name = prefix + name_in_text_model(tensor.name), .sources = {tensor}});
  }
}

// The fused matrix or bias of layer `i`, from its queries, keys and values.
OriginalTensor fused_projection(const std::map<std::string, CheckpointTensor>& tensors, const Checkpoint& part,
                                const std::string& prefix, int64_t i, const char* kind) {
  OriginalTensor fused{.name = fmt::format("{}transformer.resblocks.{}.attn.in_proj_{}", prefix, i, kind)};
  for (const char* letter : {"q", "k", "v"}) {
    const std::string name = fmt::format("text_model.encoder.layers.{}.self_attn.{}_proj.{}", i, letter, kind);
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw bad_input("{}: has no tensor {}", part.path(), quote(name));
    if (!fused.sources.empty() && fused.sources.front().shape != found->second.shape)
      throw bad_input("{}: tensor {} has another shape than its neighbors", part.path(), quote(name));
    fused.sources.push_back(found->second);
  }
  return fused;
}

void add_open_clip(const Checkpoint& part, const std::string& prefix, std::vector<OriginalTensor>& out) {
  std::map<std::string, CheckpointTensor> tensors;
  int64_t layers = 0;
  for (const CheckpointTensor& tensor : part.tensors()) {
    if (!tensor.name.ends_with("position_ids")) tensors.emplace(name_in_text_model(tensor.name), tensor);
  }
  while (layers < kMostTextLayers &&
         tensors.contains(fmt::format("text_model.encoder.layers.{}.mlp.fc1.weight", layers)))
    ++layers;
  const NameTable table = NameTable::of_open_clip(layers);
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".self_attn.") != name.npos && name.find(".out_proj.") == name.npos) continue;  // fused below
    const auto original = table.to_original(name);
    if (!original) refuse_name(part, name);
    const bool transposed = name == kProjection;
    out.push_back({.name = prefix + *original,
                   .sources = {transposed ? transposed_tensor(tensor) : tensor},
                   .transposed = transposed});
  }
  for (int64_t i = 0; i < layers; ++i) {
    for (const char* kind : {"weight", "bias"}) out.push_back(fused_projection(tensors, part, prefix, i, kind));
  }
}

}  // namespace

std::vector<OriginalTensor> original_tensors(const PipelineParts& parts) {
  std::vector<OriginalTensor> out;
  add_unet(parts.unet, out);
  add_autoencoder(parts.autoencoder, out);
  if (is_xl(parts)) {
    add_clip(parts.text_encoders[0].checkpoint, "conditioner.embedders.0.transformer.", out);
    add_open_clip(parts.text_encoders[1].checkpoint, "conditioner.embedders.1.model.", out);
  } else if (uses_matrices(parts)) {
    add_open_clip(parts.text_encoders[0].checkpoint, "cond_stage_model.model.", out);
  } else {
    add_clip(parts.text_encoders[0].checkpoint, "cond_stage_model.transformer.", out);
  }
  return out;
}

const char* original_architecture(const PipelineParts& parts) {
  return is_xl(parts) ? "sdxl" : uses_matrices(parts) ? "sd2" : "sd1";
}

Json stored_configs(const PipelineParts& parts) {
  Json document = {{"class_name", parts.class_name},
                   {"unet", parts.unet.config},
                   {"vae", parts.autoencoder.config},
                   {"scheduler", parts.scheduler},
                   {"force_zeros_for_empty_prompt", parts.zeros_for_empty},
                   {"padding", Json::array()}};
  constexpr std::array<const char*, 2> kNames = {"text_encoder", "text_encoder_2"};
  for (size_t i = 0; i < parts.text_encoders.size(); ++i) {
    const TextPart& text = parts.text_encoders[i];
    if (const auto* config = text.checkpoint.config()) document[kNames[i]] = Json::parse(config->dump());
    std::string padding = text.padding;
    if (padding.empty() && !text.tokenizer.empty()) padding = padding_token(text.tokenizer);
    document["padding"].push_back(padding.empty() ? "<|endoftext|>" : padding);
  }
  return document;
}

}  // namespace gabbro::pictures
