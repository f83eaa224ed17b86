// The files of a model's folder that describe its tokenizer, unchanged. src/text reads them.
#pragma once

#include <optional>
#include <string>

#include "src/formats/hugging_face/chat_templates.h"

namespace gabbro {

struct TokenizerFiles {
  std::string folder;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> sentencepiece_model;  // tokenizer.model, or as T5, XLM-RoBERTa and others call it
  std::optional<std::string> tokenizer_config;
  std::optional<std::string> special_tokens_map;
  std::optional<std::string> added_tokens;

  bool empty() const { return !tokenizer_json && !sentencepiece_model; }
};

// True of a tokenizer.json, a .model file, and a folder that holds one of them.
bool is_tokenizer_path(const std::string& path);

// `path`: a folder, or one of its files that holds a tokenizer, which is then the one that counts. Files that are not
// there are left out. Throws bad_input that names a file that cannot be read or is too large.
TokenizerFiles read_tokenizer_files(const std::string& path);

}  // namespace gabbro
