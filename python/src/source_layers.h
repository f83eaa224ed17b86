// The layers of an Ollama manifest, for language models.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gabbro/engine/generate.h"
#include "gabbro/engine/session.h"
#include "src/hub/ollama_layers.h"

namespace gabbro::python {

struct SourceLayers {
  std::shared_ptr<const hub::OllamaLayers> layers;  // null: there are none
  std::vector<std::string> warnings;                // of what is not followed
};

// Adds adapters, template and context to the options of loading. Throws bad_input that names the source.
SourceLayers apply_layers(std::shared_ptr<const hub::OllamaLayers> layers, LoadOptions& options);

// PARAMETERs of sampling and of the answer's end. Throws bad_input that names the source and the parameter.
void apply_parameters(const SourceLayers& source, GenerateOptions& options);

// Role and content of the messages with the source's system message, if they do not begin with one, and its messages.
std::vector<std::pair<std::string, std::string>> with_source_messages(
    const SourceLayers& source, const std::vector<std::pair<std::string, std::string>>& messages);

}  // namespace gabbro::python
