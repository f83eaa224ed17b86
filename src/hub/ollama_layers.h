// The layers that an Ollama manifest adds to its model's file: what a Modelfile says by ADAPTER, TEMPLATE, SYSTEM,
// PARAMETER, MESSAGE and LICENSE.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/hub/listing.h"
#include "src/hub/model_folders.h"

namespace gabbro::hub {

struct OllamaLayers {
  std::string name;
  std::vector<std::string> adapters;         // paths of GGUF files
  std::optional<std::string> chat_template;  // in the language of Go's text/template
  std::string system;                        // the system message where the user gives none
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  std::vector<std::pair<std::string, std::string>> messages;  // role and content: they precede each conversation
  std::vector<std::string> licenses;
  std::vector<std::string> notes;  // a line for each layer that is not followed, or whose blob is missing

  bool empty() const {
    return adapters.empty() && !chat_template && system.empty() && parameters.empty() && messages.empty() &&
           licenses.empty() && notes.empty();
  }
};

// Throws bad_input that begins with the entry's name: an adapter's blob that is missing or has another size than the
// manifest says, JSON of another form.
OllamaLayers read_ollama_layers(const OllamaEntry& entry);

// The path of a layer's blob, whether it is there or not; and what is wrong with it, empty where nothing is.
std::string ollama_blob(const std::string& folder, const OllamaLayer& layer);
std::string ollama_blob_problem(const std::string& folder, const OllamaLayer& layer);

// The manifest of an entry. Throws bad_input.
OllamaManifest read_ollama_manifest(const std::string& path);

}  // namespace gabbro::hub
