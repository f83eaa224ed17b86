#include "src/pictures/pipeline_parts.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/single_file/single_file.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

PipelinePart folder_part(const std::string& folder) {
  return {.checkpoint = Checkpoint::open(weights_of(folder)),
          .config = read_config(folder, "config.json"),
          .config_name = folder + "/config.json"};
}

PipelineParts open_folder(const std::string& model) {
  const PipelineFolder folder = read_pipeline_folder(model);
  PipelineParts parts{.path = folder.path,
                      .name = fs::weakly_canonical(folder.path).filename().string(),
                      .class_name = folder.class_name,
                      .unet = folder_part(folder.unet),
                      .autoencoder = folder_part(folder.vae),
                      .text_encoders = {},
                      .scheduler = read_config(folder.scheduler, "scheduler_config.json"),
                      .scheduler_name = folder.scheduler + "/scheduler_config.json",
                      .zeros_for_empty = folder.zeros_for_empty};
  for (const auto& [encoder, tokenizer] : folder.text_encoders)
    parts.text_encoders.push_back({.checkpoint = Checkpoint::open(encoder), .tokenizer = tokenizer});
  return parts;
}

}  // namespace

void PartSize::add(const CheckpointTensor& tensor) {
  ++tensors;
  parameters += static_cast<uint64_t>(tensor.elements());
  bytes += tensor.data.size();
  ++formats[std::string(tensor.format)];
}

std::vector<PartSize> part_sizes(const PipelineParts& parts) {
  std::vector<PartSize> sizes;
  const auto add = [&](const char* name, const Checkpoint& checkpoint) {
    sizes.push_back({.name = name});
    for (const CheckpointTensor& tensor : checkpoint.tensors()) sizes.back().add(tensor);
  };
  for (const TextPart& text : parts.text_encoders)
    add(sizes.empty() ? "text encoder" : "text encoder 2", text.checkpoint);
  add("U-Net", parts.unet.checkpoint);
  add("autoencoder", parts.autoencoder.checkpoint);
  return sizes;
}

bool is_single_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return false;
  for (const char* ending : {".safetensors", ".gguf", ".ckpt", ".pt", ".pth", ".bin"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

PipelineParts open_pipeline(const std::string& model, const GivenParts& given) {
  if (is_single_file(model)) return open_single_file(model, given);
  PipelineParts parts = open_folder(model);
  replace_parts(parts, given);
  return parts;
}

}  // namespace gabbro::pictures
