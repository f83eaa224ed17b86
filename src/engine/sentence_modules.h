// The files with which sentence-transformers describes what follows the encoder of a folder: modules.json and the
// folders that it names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/formats/hugging_face/tokenizer_files.h"
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
  std::optional<int64_t> most_tokens;          // sentence_bert_config.json, else tokenizer_config.json
  bool lower_case = false;                     // texts are changed to lower case first: do_lower_case
  std::map<std::string, std::string> prompts;  // config_sentence_transformers.json
  std::string default_prompt;
  std::optional<bool> sigmoid;  // of a classifier's logits: "activation_fn"
};

// Reads the folder of a model. Files that are not there are left out; one that is wrong, or asks for something that is
// not supported, throws bad_input that names the file and the field.
SentenceModules read_sentence_modules(const std::string& folder);

// Reads sentence_bert_config.json, under any of the names that older models use.
void read_sentence_config(const std::string& folder, SentenceModules& modules);

// Makes the normalizer of tokenizer.json begin with lower casing, unless it does already, as sentence-transformers
// does. Throws bad_input for a tokenizer of another kind.
void add_lower_case(TokenizerFiles& files);

encoder::Pooling parse_pooling(const std::string& name);  // throws bad_input that lists the names
std::string pooling_name(encoder::Pooling pooling);

}  // namespace gabbro
