// Loading encoder-decoders (T5) as engines hold them: a text that the encoder reads, and an answer of the decoder.
#pragma once

#include "src/engine/loaded_model.h"
#include "src/formats/checkpoint.h"
#include "src/models/encoder/t5_decoder.h"

namespace gabbro {

// As load_language_model (loading.h). Throws bad_input for an option that encoder-decoders do not take, and as
// encoder::load_t5 does.
void load_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& loaded);

}  // namespace gabbro
