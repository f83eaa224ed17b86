// The models among a list of GGUF files, by their names alone: splits belong together, and names end in the
// quantization.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::hub {

struct GgufModel {
  std::string name;                // path without ".gguf" and "-00001-of-00003"
  std::string label;               // "Q4_K_M", "UD-Q4_K_XL"; empty where the name does not tell
  std::vector<std::string> files;  // first the one to open
  bool is_complete = true;         // all parts are in the list
};

// Sorted by name. Files for other programs are left out: multimodal projectors (mmproj) and importance matrices.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);

// The quantization of "Qwen3-8B-Q4_K_M": its last part, or a folder's name.
std::string quantization_label(std::string_view name);

// The models that a tag means: a quantization or the name of a file, in whatever case. Empty: none.
std::vector<GgufModel> models_of_tag(const std::vector<GgufModel>& models, std::string_view tag);

// The default without a tag: the only file, else a single Q4_K_M. Null: a tag is needed.
const GgufModel* default_model(const std::vector<GgufModel>& models);

// "q4_k_m, q8_0", or names of files where these do not tell.
std::string known_tags(const std::vector<GgufModel>& models);

// The part of a name after the colon: the label in lower case, or the file's name where that is not unique.
std::string tag_of(const GgufModel& model, const std::vector<GgufModel>& models);

}  // namespace gabbro::hub
