// The files with which sentence-transformers describes what follows the encoder of a folder: modules.json and the
// folders that it names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/models/encoder/encoder_config.h"

namespace gabbro {

// A matrix on pooled vectors, in a separate folder.
struct DenseModule {
  std::string folder;
  int64_t in = 0, out = 0;
  bool bias = true;
  bool tanh = true;  // else nothing follows
};

struct SentenceModules {
  bool found = false;                          // modules.json is there
  std::optional<encoder::Pooling> pooling;     // where a file says it
  bool with_prompt = true;                     // pooling counts the tokens of the prompt too
  std::vector<DenseModule> dense;              // in this order
  bool normalized = false;                     // it has a Normalize module
  std::optional<int64_t> most_tokens;          // sentence_bert_config.json, tokenizer_config.json
  std::map<std::string, std::string> prompts;  // config_sentence_transformers.json
  std::string default_prompt;
  std::optional<bool> sigmoid;  // of a classifier's logits: "activation_fn"
};

// Reads the folder of a model. Files that are not there are left out; one that is wrong throws bad_input that names the
// file and the field.
SentenceModules read_sentence_modules(const std::string& folder);

encoder::Pooling parse_pooling(const std::string& name);  // throws bad_input that lists the names
std::string pooling_name(encoder::Pooling pooling);

}  // namespace gabbro
