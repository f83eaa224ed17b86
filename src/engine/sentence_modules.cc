#include "src/engine/sentence_modules.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using encoder::Pooling;

constexpr std::pair<Pooling, const char*> kPoolings[] = {{Pooling::kMean, "mean"},
                                                         {Pooling::kCls, "cls"},
                                                         {Pooling::kLast, "last"},
                                                         {Pooling::kMax, "max"},
                                                         {Pooling::kRank, "rank"}};

// A JSON object, or nothing where the file is not there.
std::optional<Json> read_object(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  Json document = read_json_file(path.string());
  if (!document.is_object()) throw bad_input("{}: is not an object", path.string());
  return document;
}

bool read_flag(const Json& document, const fs::path& path, const char* name, bool other) {
  const auto found = document.find(name);
  if (found == document.end() || found->is_null()) return other;
  if (!found->is_boolean()) throw bad_input("{}: field '{}' is not true or false", path.string(), name);
  return found->get<bool>();
}

std::string read_text(const Json& document, const fs::path& path, const char* name) {
  const auto found = document.find(name);
  if (found == document.end() || found->is_null()) return "";
  if (!found->is_string()) throw bad_input("{}: field '{}' is not a text", path.string(), name);
  return found->get<std::string>();
}

int64_t read_size(const Json& document, const fs::path& path, const char* name) {
  const auto found = document.find(name);
  constexpr int64_t kLargestSize = 1 << 20;
  if (found == document.end() || !found->is_number_integer() || found->get<int64_t>() < 1 ||
      found->get<int64_t>() > kLargestSize)
    throw bad_input("{}: field '{}' is not a number from 1 to {}", path.string(), name, kLargestSize);
  return found->get<int64_t>();
}

Pooling read_pooling(const fs::path& path, SentenceModules& modules) {
  const std::optional<Json> document = read_object(path);
  if (!document) throw bad_input("{}: is missing", path.string());
  modules.with_prompt = read_flag(*document, path, "include_prompt", true);
  if (const auto mode = document->find("pooling_mode"); mode != document->end()) {
    const bool one = mode->is_array() && mode->size() == 1 && mode->front().is_string();
    if (mode->is_array() && !one)
      throw bad_input("{}: asks for several kinds of pooling, which is not supported", path.string());
    const std::string name = one ? mode->front().get<std::string>() : read_text(*document, path, "pooling_mode");
    return parse_pooling(name == "lasttoken" ? "last" : name);
  }
  constexpr std::pair<const char*, Pooling> kModes[] = {{"pooling_mode_cls_token", Pooling::kCls},
                                                        {"pooling_mode_max_tokens", Pooling::kMax},
                                                        {"pooling_mode_mean_tokens", Pooling::kMean},
                                                        {"pooling_mode_lasttoken", Pooling::kLast}};
  std::optional<Pooling> pooling;
  for (const auto& [name, mode] : kModes) {
    if (!read_flag(*document, path, name, false)) continue;
    if (pooling) throw bad_input("{}: asks for several kinds of pooling, which is not supported", path.string());
    pooling = mode;
  }
  for (const char* name : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"}) {
    if (read_flag(*document, path, name, false)) throw bad_input("{}: '{}' is not supported", path.string(), name);
  }
  return pooling.value_or(Pooling::kMean);  // the default of sentence-transformers
}

// A module on another vector than that of the sentence is refused.
void check_features(const Json& document, const fs::path& path) {
  for (const char* name : {"module_input_name", "module_output_name"}) {
    const std::string feature = read_text(document, path, name);
    if (!feature.empty() && feature != "sentence_embedding")
      throw bad_input("{}: {} {} is not supported", path.string(), name, quote(feature));
  }
}

DenseModule read_dense(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const std::optional<Json> document = read_object(path);
  if (!document) throw bad_input("{}: is missing", path.string());
  DenseModule dense{.folder = folder.string(),
                    .in = read_size(*document, path, "in_features"),
                    .out = read_size(*document, path, "out_features"),
                    .bias = read_flag(*document, path, "bias", true)};
  check_features(*document, path);
  if (read_flag(*document, path, "use_residual", false))
    throw bad_input("{}: use_residual is not supported", path.string());
  const std::string activation = read_text(*document, path, "activation_function");
  dense.tanh = activation.empty() || activation.ends_with(".Tanh");
  if (!dense.tanh && !activation.ends_with(".Identity"))
    throw bad_input("{}: activation_function {} is not supported", path.string(), quote(activation));
  return dense;
}

void read_module(const fs::path& folder, const fs::path& path, const Json& entry, SentenceModules& modules) {
  if (!entry.is_object()) throw bad_input("{}: an entry is not an object", path.string());
  const std::string type = read_text(entry, path, "type"), place = read_text(entry, path, "path");
  if (place.find('/') != place.npos || place == ".." || place.find('\0') != place.npos)
    throw bad_input("{}: path {} is not a folder of the model", path.string(), quote(place));
  const std::string kind = type.substr(type.rfind('.') + 1);
  // The order in which they are computed here.
  const auto refuse_order = [&] {
    throw bad_input("{}: a module {} in this place is not supported", path.string(), kind);
  };
  if (kind == "Transformer") return;
  if (kind == "Pooling") {
    if (modules.pooling || !modules.dense.empty() || modules.normalized) refuse_order();
    modules.pooling = read_pooling(folder / place / "config.json", modules);
  } else if (kind == "Dense") {
    if (!modules.pooling || modules.normalized) refuse_order();
    modules.dense.push_back(read_dense(folder / place));
  } else if (kind == "Normalize") {
    if (!modules.pooling) refuse_order();
    const fs::path config = folder / place / "config.json";
    if (const auto document = place.empty() ? std::nullopt : read_object(config)) check_features(*document, config);
    modules.normalized = true;
  } else {
    throw bad_input("{}: modules of type {} are not supported", path.string(), quote(type));
  }
}

void read_tokenizer_length(const fs::path& folder, SentenceModules& modules) {
  const std::optional<Json> document = read_object(folder / "tokenizer_config.json");
  if (!document) return;
  const auto found = document->find("model_max_length");
  if (found == document->end() || !found->is_number_integer()) return;  // "no limit" is a float of 1e30
  if (found->get<int64_t>() > 0) modules.most_tokens = found->get<int64_t>();
}

void read_prompts(const fs::path& folder, SentenceModules& modules) {
  const fs::path path = folder / "config_sentence_transformers.json";
  const std::optional<Json> document = read_object(path);
  if (!document) return;
  modules.default_prompt = read_text(*document, path, "default_prompt_name");
  const auto prompts = document->find("prompts");
  if (prompts == document->end() || prompts->is_null()) return;
  if (!prompts->is_object()) throw bad_input("{}: field 'prompts' is not an object", path.string());
  for (const auto& [name, text] : prompts->items()) {
    if (!text.is_string() && !text.is_null())
      throw bad_input("{}: prompt {} is not a text", path.string(), quote(name));
    modules.prompts[name] = text.is_null() ? "" : text.get<std::string>();
  }
}

void read_activation(const fs::path& folder, SentenceModules& modules) {
  const fs::path path = folder / "config.json";
  const std::optional<Json> document = read_object(path);
  if (!document) return;
  std::string name = read_text(*document, path, "sbert_ce_default_activation_function");
  if (const auto newer = document->find("sentence_transformers"); newer != document->end() && newer->is_object())
    name = read_text(*newer, path, "activation_fn");
  if (name.empty()) return;
  if (!name.ends_with(".Sigmoid") && !name.ends_with(".Identity"))
    throw bad_input("{}: activation {} of scores is not supported", path.string(), quote(name));
  modules.sigmoid = name.ends_with(".Sigmoid");
}

}  // namespace

SentenceModules read_sentence_modules(const std::string& folder) {
  SentenceModules modules;
  const fs::path root(folder), path = root / "modules.json";
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    const Json document = read_json_file(path.string());
    if (!document.is_array()) throw bad_input("{}: is not an array", path.string());
    modules.found = true;
    for (const Json& entry : document) read_module(root, path, entry, modules);
  }
  read_tokenizer_length(root, modules);
  read_sentence_config(folder, modules);
  read_prompts(root, modules);
  read_activation(root, modules);
  return modules;
}

Pooling parse_pooling(const std::string& name) {
  std::string known;
  for (const auto& [pooling, its_name] : kPoolings) {
    if (name == its_name) return pooling;
    known += (known.empty() ? "" : ", ") + std::string(its_name);
  }
  throw bad_input("there is no pooling {}: expected one of {}", quote(name), known);
}

std::string pooling_name(Pooling pooling) {
  for (const auto& [its, name] : kPoolings) {
    if (its == pooling) return name;
  }
  return "none";
}

}  // namespace gabbro
