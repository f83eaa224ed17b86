#include "src/text/special/special_names.h"

#include <utility>

namespace gabbro::text {
namespace {

Json parse_or_empty(const std::optional<std::string>& text, const std::string& name) {
  if (!text) return Json::object();
  Json document = parse_sorted_json(*text, name);
  if (!document.is_object()) JsonNode(document, name).refuse("object");
  return document;
}

}  // namespace

ConfigFiles::ConfigFiles(const TokenizerFiles& files)
    : config_name(files.name + "/tokenizer_config.json"), map_name(files.name + "/special_tokens_map.json") {
  tokenizer_config = parse_or_empty(files.tokenizer_config, config_name);
  special_tokens_map = parse_or_empty(files.special_tokens_map, map_name);
}

std::optional<JsonNode> ConfigFiles::config(std::string_view key) const {
  return JsonNode(tokenizer_config, config_name).find(key);
}

std::string ConfigFiles::token_text(std::string_view key) const {
  auto found = config(key);
  if (!found) found = JsonNode(special_tokens_map, map_name).find(key);
  if (!found) return {};
  return found->is_object() ? found->at("content").string() : found->string();
}

void name_special_tokens(const ConfigFiles& configs, const std::function<int32_t(std::string_view)>& find,
                         VocabularySpec& vocabulary) {
  const std::pair<std::string_view, int32_t*> names[] = {{"bos_token", &vocabulary.bos},
                                                         {"eos_token", &vocabulary.eos},
                                                         {"unk_token", &vocabulary.unknown},
                                                         {"pad_token", &vocabulary.padding}};
  for (const auto& [key, id] : names) {
    const std::string text = configs.token_text(key);
    if (!text.empty()) *id = find(text);
  }
  // Encoders of the kind of BERT call them otherwise.
  if (vocabulary.bos == kNoToken) vocabulary.bos = find(configs.token_text("cls_token"));
  if (vocabulary.eos == kNoToken) vocabulary.eos = find(configs.token_text("sep_token"));
}

}  // namespace gabbro::text
