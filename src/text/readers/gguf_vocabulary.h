// Any tokenizer as GGUF files describe one, for model files that are converted.
#pragma once

#include <optional>
#include <string>

#include "src/text/readers/tokenizer_spec.h"

namespace gabbro::text {

struct GgufVocabulary {
  VocabularySpec spec;  // the keys tokenizer.ggml.*
  bool exact = false;   // whether a text of many kinds gets the same tokens from it
};

// Nothing where GGUF has no kind of tokenizer for it. `size`: the rows of the model's embeddings; unused tokens fill
// the vocabulary up to it. Throws bad_input as read_tokenizer_files does.
std::optional<GgufVocabulary> gguf_vocabulary(const TokenizerFiles& files, int32_t size);

}  // namespace gabbro::text
