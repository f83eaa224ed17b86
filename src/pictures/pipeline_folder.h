// model_index.json: the parts of a pipeline that diffusers saved, each in its folder.
#pragma once

#include <string>
#include <vector>

#include "src/base/json_node.h"

namespace gabbro::pictures {

struct PipelineFolder {
  std::string path;
  std::string class_name;            // "StableDiffusionPipeline"
  std::string unet, vae, scheduler;  // folders
  struct TextEncoder {
    std::string encoder, tokenizer;  // folders
  };
  std::vector<TextEncoder> text_encoders;  // two for SDXL
  bool zeros_for_empty = false;            // the states of an empty negative prompt are zeros
};

bool is_pipeline_folder(const std::string& path);

// The folder of a pipeline that comes with the program, by its name: ../share/gabbro/models/NAME next to the program's
// folder. `model` itself if it is a path, or if there is no such pipeline.
std::string find_pipeline(const std::string& model);

// `model`: a path, or a name as above. Throws bad_input that names the file: not there, another pipeline than those
// that are built (which the hint lists), a part that is missing or of another class.
PipelineFolder read_pipeline_folder(const std::string& model);

// The weights of a part: the safetensors file or index that diffusers would take first, or model.gguf, which convert
// writes. Throws bad_input if there is no such file, or only a pickle.
std::string weights_of(const std::string& folder);

// FOLDER/FILE as JSON. Throws bad_input that names it.
Json read_config(const std::string& folder, const char* file);

}  // namespace gabbro::pictures
