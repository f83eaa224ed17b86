// The tokenizer of a model's folder as fields of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/gguf/gguf_writer.h"

namespace gabbro {

// Writes tokenizer.ggml.*; `vocabulary` is the number of rows of the embeddings. Returns a line for each difference
// that the new file's tokenizer has. Throws bad_input for a tokenizer that cannot be read.
std::vector<std::string> write_tokenizer_fields(const Checkpoint& checkpoint, int64_t vocabulary, gguf::Writer& writer);

}  // namespace gabbro
