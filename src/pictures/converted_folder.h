// The files of a pipeline's folder besides its weights.
#pragma once

#include <filesystem>

#include "src/pictures/pipeline_parts.h"

namespace gabbro::pictures {

// Copies the files of another folder to `out`, which is created: model_index.json, configurations, tokenizers, texts.
// Throws bad_input, std::filesystem::filesystem_error.
void copy_descriptions(const std::string& folder, const std::filesystem::path& out);

// Writes these files for parts of single files, as diffusers saves them; tokenizers are copied. Throws as above.
void write_descriptions(const PipelineParts& parts, const std::filesystem::path& out);

}  // namespace gabbro::pictures
