// Byte pair encoding as `tokenizers` has it.
#pragma once

#include "src/text/models/word_model.h"

namespace gabbro::text {

// Throws bad_input that names the path: a merge of strings that are not tokens, dropout.
std::unique_ptr<WordModel> make_bpe_model(const JsonNode& node);

}  // namespace gabbro::text
