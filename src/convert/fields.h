// Fields of the file that a conversion writes.
#pragma once

#include <string>
#include <vector>

#include "src/convert/convert.h"

namespace gabbro::llm {

// The fields of a GGUF file, without those that tell how its weights are stored.
void copy_fields(const Metadata& metadata, gguf::Writer& writer);

// Writes the fields of a folder, without its tokenizer. Returns a line for each that the new file lacks.
std::vector<std::string> write_fields(const Checkpoint& checkpoint, const Convertible& model, GgufFields& fields);

// The importance matrix that quantizing used, in llama.cpp's fields.
void write_importance_fields(const ConvertOptions& options, gguf::Writer& writer);

}  // namespace gabbro::llm
