// Encoder-decoders (T5) as engines hold them: a text that the encoder reads, and an answer of the decoder.
#pragma once

#include "gabbro/engine/session.h"
#include "src/formats/checkpoint.h"
#include "src/models/encoder/t5_decoder.h"

namespace gabbro {

struct TextToText {
  encoder::T5Model model;
  ModelFacts facts;  // without tokenizer's and device's
};

// Throws bad_input for an option that encoder-decoders do not take, and as encoder::load_t5 does.
TextToText load_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options,
                             const std::shared_ptr<Device>& device);

}  // namespace gabbro
