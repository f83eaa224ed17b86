// The choice of a repository's files that are downloaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/hub/listing.h"
#include "src/hub/repo_name.h"

namespace gabbro::hub {

struct Selection {
  std::vector<RepoFile> files;
  std::string model;  // path of the file to open, GGUF or a single file; empty: the folder is the model
  std::string tag;    // of the GGUF model
};

// With patterns (as of the shell; `*` matches '/' too): the files that match one of `include` (or all where there is
// none) and none of `exclude`. Else the GGUF model that the tag or its absence means, with all of its parts; or, of a
// repository with safetensors, what a model folder takes: weights, configuration, tokenizer, templates; or its only
// safetensors file, if it has no configuration, as models of pictures are published. Throws bad_input, with a hint that
// lists what there is.
Selection select_files(const std::vector<RepoFile>& files, const RepoName& name,
                       const std::vector<std::string>& include, const std::vector<std::string>& exclude);

// The only safetensors file of `paths`, if there is no config.json or model_index.json: a model in a single file.
std::optional<std::string> single_file_of(const std::vector<std::string>& paths);

// Whether --include and --exclude choose a path.
bool is_selected(const std::string& path, const std::vector<std::string>& include,
                 const std::vector<std::string>& exclude);

}  // namespace gabbro::hub
