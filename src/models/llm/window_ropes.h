// Rotary embeddings of Gemma 3 and 3n and OLMo 2 and 3: layers with a window use `local_rope`.
#pragma once

#include "src/models/llm/decoder_config.h"

namespace gabbro::llm {

// Reads both, and marks the layers; `base_of_gguf` is that of local_rope where a file does not say it. Throws bad_input
// as ConfigReader does.
void read_window_ropes(const ConfigReader& fields, DecoderConfig& config, float base_of_gguf);

}  // namespace gabbro::llm
