// Models in the folders of the Hub's cache, of Ollama and of LM Studio.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/hub/gguf_files.h"
#include "src/hub/model_cache.h"
#include "src/hub/repo_name.h"

namespace gabbro::hub {

// The files of one repository at one commit, wherever they are.
struct RepoFolder {
  RepoName name;  // without a tag
  std::string folder;
  bool is_model = false;         // config.json or model_index.json with weights: the folder is a model
  std::vector<GgufModel> ggufs;  // complete ones
};

// A folder of the Hub's cache or of LM Studio. `files` are relative to it.
RepoFolder repo_folder(const RepoName& name, const std::string& folder, const std::vector<std::string>& files);

std::vector<CachedModel> models_in(const RepoFolder& folder, ModelSource source);

// The path of the model that a name without or with a tag means; nothing where it is not there. Throws bad_input where
// it could be several.
std::optional<std::string> find_in(const RepoFolder& folder, const RepoName& name);

std::vector<CachedModel> hub_models();
std::vector<CachedModel> lm_studio_models();
std::vector<CachedModel> ollama_models();

// By the name in whatever case; without a revision the default one, else the only one that is there.
std::optional<std::string> find_hub_model(const RepoName& name);
std::optional<std::string> find_lm_studio_model(const RepoName& name);
// "qwen3:8b", "owner/name:tag"; without a tag "latest".
std::optional<std::string> find_ollama_model(const std::string& name);

// LM Studio's folder, by ~/.lmstudio-home-pointer or one of its default places; and Ollama's, by OLLAMA_MODELS or its
// default ones.
std::vector<std::string> lm_studio_folders();
std::vector<std::string> ollama_folders();

}  // namespace gabbro::hub
