// An encoder as a GGUF file has it, for `convert`.
#pragma once

#include "src/convert/convert.h"
#include "src/models/encoder/encoder_config.h"

namespace gabbro::encoder {

// `pooling` is the model's. Throws bad_input for a family or a choice that GGUF has no name for, and as family_of does.
llm::Convertible convertible(const Checkpoint& checkpoint, Pooling pooling);

// The number of a pooling in GGUF files (llama.cpp's enum llama_pooling_type); nothing where it has none.
std::optional<uint32_t> gguf_number(Pooling pooling);
std::optional<Pooling> pooling_of_gguf_number(uint32_t number);

}  // namespace gabbro::encoder
