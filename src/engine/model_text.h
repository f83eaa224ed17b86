// The text side of a GGUF file: its vocabulary and its chat template, as the tokenizer and the template engine want them.
#pragma once

#include <optional>
#include <string>

#include "src/formats/gguf.h"
#include "src/text/tokenizer.h"

namespace gabbro {

// Throws bad_input that names the file and the field: a missing vocabulary, wrong types.
text::VocabularySpec read_vocabulary(const gguf::File& file);

// The tokenizer of the file; its errors name the file too.
text::Tokenizer read_tokenizer(const gguf::File& file);

// The source of the chat template; nullopt where the file has none.
std::optional<std::string> read_chat_template(const gguf::File& file);

}  // namespace gabbro
