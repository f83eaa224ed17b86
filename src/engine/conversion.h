// The contents of the file that `convert` writes for a checkpoint: a language model, or a text encoder with its
// pooling.
#pragma once

#include "src/convert/convert.h"

namespace gabbro {

// Throws bad_input that names the file and what GGUF has no place for: another architecture, a dense module.
llm::Convertible convertible_of(const Checkpoint& checkpoint);

// For llm::ConvertOptions::check: reads the new file as a model, its sizes, tensors and tokenizer, without a device.
// Throws bad_input as loading does.
void check_converted(const std::string& path);

// True of a checkpoint that is to be read as an encoder: an architecture that only encoders have, or a language model's
// that is saved for embeddings.
bool is_encoder(const Checkpoint& checkpoint);

// True of an architecture that only encoders have.
bool has_encoder_alone(const Checkpoint& checkpoint);

}  // namespace gabbro
