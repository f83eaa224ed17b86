// The text side of a checkpoint: its vocabulary and its chat template, in the form that the tokenizer and the template
// engine read.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/text/tokenizer.h"

namespace gabbro {

// Throws bad_input that names the file and the field: a missing vocabulary, wrong types.
text::VocabularySpec read_vocabulary(const Checkpoint& checkpoint);

// The files of a folder's tokenizer.
text::TokenizerFiles tokenizer_files_of(const Checkpoint& checkpoint);

// False where the file says that it has none: tokenizer.ggml.model is "none", or "no_vocab", as llama.cpp writes it;
// and for a folder without tokenizer files.
bool has_vocabulary(const Checkpoint& checkpoint);

// The tokenizer of the file or of the folder. Errors name the file too.
text::Tokenizer read_tokenizer(const Checkpoint& checkpoint);
// The tokenizer of these files only. `end_of_generation`: ids that other files of the folder name.
text::Tokenizer read_tokenizer(TokenizerFiles files, std::vector<int32_t> end_of_generation = {});

// Null if the model has no vocabulary, or if a folder has none that can be read: `missing` gives the reason.
std::unique_ptr<text::Tokenizer> read_tokenizer_if_any(const Checkpoint& checkpoint, std::string& missing);

// bos_token, eos_token, unk_token and pad_token as a template's variables; a token that is missing is left out.
nlohmann::ordered_json template_variables(const text::Tokenizer& tokenizer);

// The tokens of a rendered template. Templates write bos themselves or leave it to the tokenizer: either way it is
// there once, and eos not at all.
std::vector<int32_t> encode_prompt(const text::Tokenizer& tokenizer, const jinja::MarkedText& prompt);

}  // namespace gabbro
