// The tokens that tokenizer_config.json and special_tokens_map.json name.
#pragma once

#include <functional>
#include <string_view>

#include "src/base/json_node.h"
#include "src/text/readers/tokenizer_spec.h"

namespace gabbro::text {

// The JSON files of a folder next to the tokenizer.
struct ConfigFiles {
  explicit ConfigFiles(const TokenizerFiles& files);

  // A field of tokenizer_config.json, or nothing.
  std::optional<JsonNode> config(std::string_view key) const;
  // The text of "bos_token", "eos_token", ...: of tokenizer_config.json, else of special_tokens_map.json. Empty: none.
  std::string token_text(std::string_view key) const;

  Json tokenizer_config, special_tokens_map;
  std::string config_name, map_name;  // for messages
};

// Fills in bos, eos, unknown and padding of `vocabulary`; find(text) is the id of a token, or kNoToken.
void name_special_tokens(const ConfigFiles& configs, const std::function<int32_t(std::string_view)>& find,
                         VocabularySpec& vocabulary);

}  // namespace gabbro::text
