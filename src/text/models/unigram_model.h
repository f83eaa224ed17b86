// Unigram language model (Kudo 2018): the tokens whose scores have the largest sum.
#pragma once

#include "src/text/models/word_model.h"

namespace gabbro::text {

// As `tokenizers` has it. Throws bad_input that names the path: scores that are not numbers, unk_id outside the
// vocabulary.
std::unique_ptr<WordModel> make_unigram_model(const JsonNode& node);

}  // namespace gabbro::text
