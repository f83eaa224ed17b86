// The parts of a pipeline with their configurations, of a folder that diffusers saved or of a single file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/json_node.h"
#include "src/formats/checkpoint.h"

namespace gabbro::pictures {

struct PipelinePart {
  Checkpoint checkpoint;  // tensors under the names of diffusers
  Json config;
  std::string config_name;  // for messages
};

struct TextPart {
  Checkpoint checkpoint;     // with its configuration
  std::string tokenizer;     // folder
  std::string padding{};     // a token; empty: the tokenizer's
  std::string vocabulary{};  // vocab.json without merges, in place of the tokenizer's files; empty: these
};

struct PipelineParts {
  std::string path, name;  // a name for people
  std::string class_name;  // "StableDiffusionPipeline"
  PipelinePart unet, autoencoder;
  std::vector<TextPart> text_encoders;  // two for SDXL
  Json scheduler;
  std::string scheduler_name;    // for messages
  bool zeros_for_empty = false;  // the states of an empty negative prompt are zeros
};

// Files that replace a part or stand in for a missing one.
struct GivenParts {
  std::string autoencoder{};                 // --vae: a folder with config.json, or a file
  std::vector<std::string> text_encoders{};  // --text-encoder: likewise; two for SDXL
  std::vector<std::string> tokenizers{};     // --tokenizer: folders; one is for both text encoders
  bool needs_tokenizer = true;               // a single file without one is refused
};

// The size of a part in its file.
struct PartSize {
  std::string name;  // "U-Net"
  size_t tensors = 0;
  uint64_t parameters = 0, bytes = 0;
  std::map<std::string, size_t> formats{};  // tensors of each

  void add(const CheckpointTensor& tensor);
};

// The sizes of a pipeline's parts, in the order of their work.
std::vector<PartSize> part_sizes(const PipelineParts& parts);

// True of a path that is to be read as a single file: it ends in .safetensors or .gguf, or is a pickle, which is then
// refused.
bool is_single_file(const std::string& path);

// `model`: a folder, the name of a pipeline that comes with the program, or a single file. Throws bad_input that names
// the file: of another kind, damaged, or without a part, with the option for it.
PipelineParts open_pipeline(const std::string& model, const GivenParts& given = {});

}  // namespace gabbro::pictures
