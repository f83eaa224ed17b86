// The layers of an Ollama manifest, for the commands that follow them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "src/hub/ollama_layers.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::cli {

using SourceLayers = std::shared_ptr<const hub::OllamaLayers>;  // null: there are none

// Takes parameters, system message and messages into the options that were not given on the command line. A note names
// the parameters that are not followed. Throws bad_input that names the source for values that cannot be.
void apply_layers(const SourceLayers& layers, GenerationOptions& options, CommonOptions& common);

// The template that takes the place of the file's; null where the layers have none, or one that cannot be read: then a
// note says which is used.
std::shared_ptr<const text::ChatTemplate> template_of(const SourceLayers& layers);

// Notes about layers that are not followed.
void report_layers(const SourceLayers& layers);

// The conversation with the source's system message, if it does not begin with one, and the source's messages before
// it.
nlohmann::ordered_json with_source_messages(const SourceLayers& layers, nlohmann::ordered_json messages);

}  // namespace gabbro::cli
