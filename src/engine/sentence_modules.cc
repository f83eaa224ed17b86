#include "src/engine/sentence_modules.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/json_file.h"

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
    const std::string name = read_text(*document, path, "pooling_mode");
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
  if (!pooling) throw bad_input("{}: asks for no pooling", path.string());
  return *pooling;
}

DenseModule read_dense(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const std::optional<Json> document = read_object(path);
  if (!document) throw bad_input("{}: is missing", path.string());
  DenseModule dense{.folder = folder.string(),
                    .in = read_size(*document, path, "in_features"),
                    .out = read_size(*document, path, "out_features"),
                    .bias = read_flag(*document, path, "bias", true)};
  const std::string activation = read_text(*document, path, "activation_function");
  dense.tanh = activation.empty() || activation.ends_with(".Tanh");
  if (!dense.tanh && !activation.ends_with(".Identity"))
    throw bad_input("{}: activation_function {} is not supported", path.string(), gguf::quote(activation));
  return dense;
}

void read_module(const fs::path& folder, const fs::path& path, const Json& entry, SentenceModules& modules) {
  if (!entry.is_object()) throw bad_input("{}: an entry is not an object", path.string());
  const std::string type = read_text(entry, path, "type"), place = read_text(entry, path, "path");
  if (place.find('/') != place.npos || place == ".." || place.find('\0') != place.npos)
    throw bad_input("{}: path {} is not a folder of the model", path.string(), gguf::quote(place));
  const std::string kind = type.substr(type.rfind('.') + 1);
  if (kind == "Transformer") return;
  if (kind == "Pooling") {
    modules.pooling = read_pooling(folder / place / "config.json", modules);
  } else if (kind == "Dense") {
    modules.dense.push_back(read_dense(folder / place));
  } else if (kind == "Normalize") {
    modules.normalized = true;
  } else {
    throw bad_input("{}: modules of type {} are not supported", path.string(), gguf::quote(type));
  }
}

void read_lengths(const fs::path& folder, SentenceModules& modules) {
  for (const auto& [file, name] :
       {std::pair("tokenizer_config.json", "model_max_length"), {"sentence_bert_config.json", "max_seq_length"}}) {
    const std::optional<Json> document = read_object(folder / file);
    if (!document) continue;
    const auto found = document->find(name);
    if (found == document->end() || !found->is_number_integer()) continue;  // "no limit" is a float of 1e30
    const auto length = found->get<int64_t>();
    if (length > 0) modules.most_tokens = std::min(length, modules.most_tokens.value_or(length));
  }
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
    if (!text.is_string()) throw bad_input("{}: prompt {} is not a text", path.string(), gguf::quote(name));
    modules.prompts[name] = text.get<std::string>();
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
    throw bad_input("{}: activation {} of scores is not supported", path.string(), gguf::quote(name));
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
  read_lengths(root, modules);
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
  throw bad_input("there is no pooling {}: expected one of {}", gguf::quote(name), known);
}

std::string pooling_name(Pooling pooling) {
  for (const auto& [its, name] : kPoolings) {
    if (its == pooling) return name;
  }
  return "none";
}

}  // namespace gabbro
