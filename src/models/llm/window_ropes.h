// Rotary embeddings of Gemma 3 and 3n: layers with a window have those of `local_rope`, which is not scaled.
#pragma once

#include "src/models/llm/decoder_config.h"

namespace gabbro::llm {

// Reads both, and marks the layers. Throws bad_input as ConfigReader does.
void read_window_ropes(const ConfigReader& fields, DecoderConfig& config);

}  // namespace gabbro::llm
