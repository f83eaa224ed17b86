// Granite's factors of embeddings, residuals, attention scores and logits.
#pragma once

#include "src/models/llm/decoder_config.h"
#include "src/models/llm/gguf_fields.h"

namespace gabbro::llm {

// 1 where a model does not name a factor, which is what Llama has. Throws bad_input for one out of range.
void read_granite_factors(const ConfigReader& fields, DecoderConfig& config);

}  // namespace gabbro::llm
