// sentence_bert_config.json: how sentence-transformers calls the encoder of a folder.
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/engine/sentence_modules.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The first that is there counts.
constexpr const char* kFiles[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                  "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                  "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                  "sentence_xlnet_config.json"};

// Settings of the program that change no vector.
constexpr const char* kWithoutEffect[] = {
    "unpad_inputs",      "trust_remote_code", "torch_dtype",      "dtype",    "device_map", "attn_implementation",
    "use_fast",          "padding_side",      "cache_dir",        "revision", "token",      "local_files_only",
    "add_pooling_layer", "use_cache",         "low_cpu_mem_usage"};

bool is_without_effect(const std::string& name) {
  return std::ranges::find(kWithoutEffect, name) != std::end(kWithoutEffect);
}

[[noreturn]] void refuse(const std::string& path, const std::string& name, const Json& value) {
  throw bad_input("{}: field '{}' is {}, which is not supported", path, name, quote(value.dump()));
}

bool is_empty(const Json& value) {
  return value.is_null() || ((value.is_object() || value.is_array() || value.is_string()) && value.empty());
}

void read_length(const Json& value, const std::string& path, const std::string& name, SentenceModules& modules) {
  if (is_empty(value)) return;
  if (!value.is_number() || value.get<double>() < 1) refuse(path, name, value);
  if (!value.is_number_integer()) return;  // "no limit" is a float of 1e30
  modules.most_tokens = value.get<int64_t>();
}

void read_lower_case(const Json& value, const std::string& path, const std::string& name, SentenceModules& modules) {
  if (value.is_null()) return;
  if (!value.is_boolean()) throw bad_input("{}: field '{}' is not true or false", path, name);
  modules.lower_case = value.get<bool>();
}

// Text goes through the model's forward, whose last states are what modules.json continues with.
void check_modalities(const Json& value, const std::string& path) {
  const Json* const text = value.is_object() && value.contains("text") ? &value["text"] : nullptr;
  if (is_empty(value)) return;
  if (text == nullptr || !text->is_object()) refuse(path, "modality_config", value);
  const auto is_one = [&](const char* name, const char* expected) {
    return !text->contains(name) || (*text)[name].is_null() || (*text)[name] == expected;
  };
  if (!is_one("method", "forward") || !is_one("method_output_name", "last_hidden_state"))
    refuse(path, "modality_config", value);
}

void read_arguments(const Json& value, const std::string& path, const std::string& field, SentenceModules& modules) {
  if (is_empty(value)) return;
  if (!value.is_object()) refuse(path, field, value);
  const bool of_tokenizer = field == "tokenizer_args" || field == "processor_kwargs";
  for (const auto& [name, setting] : value.items()) {
    if (of_tokenizer && name == "model_max_length") {
      read_length(setting, path, field + "." + name, modules);
    } else if (!is_empty(setting) && !is_without_effect(name)) {
      refuse(path, field + "." + name, setting);
    }
  }
}

void read_field(const std::string& name, const Json& value, const std::string& path, SentenceModules& modules) {
  constexpr std::array<std::string_view, 6> kArguments = {"model_args",       "model_kwargs", "tokenizer_args",
                                                          "processor_kwargs", "config_args",  "config_kwargs"};
  if (name == "max_seq_length") return read_length(value, path, name, modules);
  if (name == "do_lower_case") return read_lower_case(value, path, name, modules);
  if (name == "modality_config") return check_modalities(value, path);
  if (std::ranges::find(kArguments, name) != kArguments.end()) return read_arguments(value, path, name, modules);
  if (is_empty(value) || value == false || is_without_effect(name)) return;
  if (name == "transformer_task" && value == "feature-extraction") return;
  if (name == "module_output_name" && value == "token_embeddings") return;
  refuse(path, name, value);
}

bool has_lower_case(const Json& normalizer) {
  const auto is_it = [](const Json& one) { return one.is_object() && one.value("type", Json()) == Json("Lowercase"); };
  if (is_it(normalizer)) return true;
  if (!normalizer.is_object() || normalizer.value("type", Json()) != Json("Sequence")) return false;
  const auto list = normalizer.find("normalizers");
  return list != normalizer.end() && list->is_array() && std::ranges::any_of(*list, is_it);
}

}  // namespace

void read_sentence_config(const std::string& folder, SentenceModules& modules) {
  for (const char* file : kFiles) {
    const std::string path = (fs::path(folder) / file).string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    const Json document = read_json_file(path);
    if (!document.is_object()) throw bad_input("{}: is not an object", path);
    for (const auto& [name, value] : document.items()) read_field(name, value, path, modules);
    if (!document.empty()) return;
  }
}

void add_lower_case(TokenizerFiles& files) {
  if (!files.tokenizer_json) throw bad_input("{}: do_lower_case is only supported with a tokenizer.json", files.folder);
  Json document = parse_json(*files.tokenizer_json, files.folder + "/tokenizer.json");
  if (!document.is_object()) return;  // its reader says what is wrong
  const Json normalizer = document.contains("normalizer") ? document["normalizer"] : Json();
  if (has_lower_case(normalizer)) return;
  Json steps = Json::array({Json::object({{"type", "Lowercase"}})});
  const bool is_sequence = normalizer.is_object() && normalizer.value("type", Json()) == Json("Sequence");
  if (is_sequence && normalizer.contains("normalizers") && normalizer["normalizers"].is_array()) {
    for (const Json& step : normalizer["normalizers"]) steps.push_back(step);
  } else if (!normalizer.is_null()) {
    steps.push_back(normalizer);
  }
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  files.tokenizer_json = document.dump();
}

}  // namespace gabbro
