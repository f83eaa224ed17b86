// The parts of a sentence-transformers folder for which GGUF has no fields, as fields of our own in files that are
// converted: gabbro.embed.* (docs/guides/convert.md lists them).
#pragma once

#include "src/engine/sentence_modules.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/metadata.h"

namespace gabbro {

void write_sentence_fields(const SentenceModules& modules, gguf::Writer& writer);

// The same of a GGUF file; what it does not say is as without modules.json. Throws bad_input for fields of other types.
SentenceModules read_sentence_fields(const Metadata& metadata);

}  // namespace gabbro
