// The model cache: the meaning of MODEL on the command line, and the models that are there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gabbro {

struct CachedModel {
  std::string name;  // without ".gguf" and, for a model in parts, without "-00001-of-00003"
  std::string path;  // a file (the first part of several), or a folder
  uint64_t bytes;    // of all parts, or of the files of the folder
};

// $GABBRO_HOME/models, $XDG_CACHE_HOME/gabbro/models where that is an absolute path, or ~/.cache/gabbro/models; empty
// where none of these variables is set. It need not exist.
std::string models_folder();

// Models in the cache, by name; empty if the folder is missing. Throws bad_input if it cannot be read.
std::vector<CachedModel> list_models();

// The file or folder that `model` means: a path of a file, of a folder in the layout of Hugging Face (config.json) or
// diffusers (model_index.json), or a name in the cache, in whatever case. Throws bad_input, with a hint that lists what
// there is.
std::string resolve_model(const std::string& model);

}  // namespace gabbro
