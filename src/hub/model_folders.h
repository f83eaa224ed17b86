// Models in the folders of the Hub's cache, of Ollama and of LM Studio.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/gguf_files.h"
#include "src/hub/model_cache.h"
#include "src/hub/repo_cache.h"
#include "src/hub/repo_name.h"

namespace gabbro::hub {

constexpr std::string_view kWeightIndexSuffix = ".safetensors.index.json";

// The files of one repository at one commit, wherever they are.
struct RepoFolder {
  // A GGUF model with missing files.
  struct BrokenGguf {
    GgufModel model;
    std::string problem;
  };

  RepoName name;  // without a tag
  std::string folder;
  bool is_model = false;           // config.json or model_index.json with weights: the folder is a model
  std::string problem;             // of such a folder that is not whole, and no model therefore
  std::vector<GgufModel> ggufs;    // complete ones
  std::vector<BrokenGguf> broken;  // the others
};

// A folder of the Hub's cache or of LM Studio. `files` are relative to it, and so are `dangling`: links to nothing.
RepoFolder repo_folder(const RepoName& name, const std::string& folder, const std::vector<std::string>& files,
                       const std::vector<std::string>& dangling = {});

// The snapshot of a commit, by the name that `gabbro list` shows.
RepoFolder snapshot_folder(const RepoCache& cache, const std::string& commit);

// Says what a folder in the layout of transformers (or diffusers) lacks: links to nothing, and files that an index
// of weights names. Empty: nothing is.
std::string problem_of_folder(const std::string& folder, const std::vector<std::string>& files,
                              const std::vector<std::string>& dangling);

// The broken ones have a `problem`.
std::vector<CachedModel> models_in(const RepoFolder& folder, ModelSource source);

// The path of the model that a name without or with a tag means; nothing where it is not there. Throws bad_input where
// it could be several.
std::optional<std::string> find_in(const RepoFolder& folder, const RepoName& name);

std::vector<CachedModel> hub_models();
std::vector<CachedModel> lm_studio_models();
std::vector<CachedModel> ollama_models();

// Finds by the name in any case; without a revision the default one, else the only one. Throw bad_input
// if several match.
std::optional<std::string> find_hub_model(const RepoName& name);
std::optional<std::string> find_lm_studio_model(const RepoName& name);
// Throws bad_input that says what is missing of a model of the Hub's cache; nothing where that has no such model.
void refuse_broken_hub_model(const RepoName& name);

// A manifest in a folder of Ollama's.
struct OllamaEntry {
  std::string name;      // "tuned:latest"
  std::string folder;    // that has manifests/ and blobs/
  std::string manifest;  // path
};
struct OllamaModel {
  std::string path;  // of the model's blob
  OllamaEntry entry;
};
// As Ollama reads names, in whatever case: "qwen3:8b", "library/qwen3", "owner/name:tag", "hf.co/owner/name:q4_k_m",
// "registry.ollama.ai/library/qwen3", "host:5000/owner/name:tag"; without a tag "latest", of a model of the Hub else
// the only one. Throws bad_input where it could be several.
std::optional<OllamaModel> find_ollama_model(const std::string& name);
// Throws bad_input that says what is wrong with a model that Ollama's folder names; nothing where it has no such model.
void refuse_broken_ollama_model(const std::string& name);

// LM Studio's folder, by ~/.lmstudio-home-pointer or one of its default places; and Ollama's, by OLLAMA_MODELS or its
// default ones.
std::vector<std::string> lm_studio_folders();
std::vector<std::string> ollama_folders();

}  // namespace gabbro::hub
