// The meaning of MODEL on the command line, and the models that are on this machine: in Gabbro's own folder, in the
// Hugging Face Hub's cache, and in the folders of Ollama and LM Studio.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gabbro::hub {
struct OllamaLayers;  // src/hub/ollama_layers.h
}

namespace gabbro {

enum class ModelSource { kGabbro, kHub, kOllama, kLmStudio };

// "gabbro", "hub", "ollama", "lmstudio"
const char* name_of(ModelSource source);

struct CachedModel {
  std::string
      name;  // what MODEL may be: "llama" (without ".gguf" and "-00001-of-00003"), "owner/name:q4_k_m", "qwen3:8b"
  std::string path;    // a file (the first part of several), or a folder
  uint64_t bytes = 0;  // of all parts, or of the files of the folder
  ModelSource source = ModelSource::kGabbro;
  std::string problem;  // of a broken model: what is missing; empty where it is whole
};

// $GABBRO_HOME/models, $XDG_CACHE_HOME/gabbro/models where that is an absolute path, or ~/.cache/gabbro/models; empty
// where none of these variables is set. It need not exist.
std::string models_folder();

// Models in Gabbro's own folder, by name; empty if it is missing. Throws bad_input if it cannot be read.
std::vector<CachedModel> own_models();

// Models of all sources, by source and name, broken ones too. Folders of other programs that cannot be read count as
// empty.
std::vector<CachedModel> list_models();

// The file or folder that `model` means: a path of a file, of a folder in the layout of Hugging Face (config.json) or
// diffusers (model_index.json), a name in the own folder in whatever case, a name of the Hub ("owner/name",
// "owner/name:q4_k_m", or a short one such as "qwen3:8b") that was downloaded, or a name of Ollama's. Throws bad_input,
// with a hint that lists what there is, or says how to download it; and where a name without regard to case could be
// several.
std::string resolve_model(const std::string& model);

// As above, only for names; nothing if no model has that name.
std::optional<std::string> find_model(const std::string& name);

// resolve_model() with what the model's source says besides: the layers of an Ollama manifest.
struct ResolvedModel {
  std::string path;
  std::shared_ptr<const hub::OllamaLayers> layers;  // null: of another source, or there are none
};
ResolvedModel resolve_with_layers(const std::string& model);

}  // namespace gabbro
