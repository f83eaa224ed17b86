// The parts of a sentence-transformers folder for which GGUF has no fields, as fields of our own in files that are
// converted: gabbro.embed.* (docs/guides/convert.md lists them).
#pragma once

#include "src/engine/sentence_modules.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/metadata.h"

namespace gabbro {

void write_sentence_fields(const SentenceModules& modules, gguf::Writer& writer);

// Reads the fields of a GGUF file. Missing fields have the values of a folder without modules.json. Throws bad_input
// for fields of other types.
SentenceModules read_sentence_fields(const Metadata& metadata);

}  // namespace gabbro
