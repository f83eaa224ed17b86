// Describes a folder that was given for a model and holds something else, for messages.
#pragma once

#include <optional>
#include <string>

namespace gabbro {

// The hint for a folder that was given for a model: the GGUF files in it, or what else there is.
std::string folder_hint(const std::string& folder);

// Throws bad_input with a hint where the folder is a LoRA adapter of PEFT: it has an adapter_config.json, and no
// weights and configuration of a model.
void refuse_adapter_folder(const std::string& folder);

// The name of an unfinished download in a folder, as programs call it meanwhile: "model.safetensors.incomplete". If
// `name` is not empty, only of that file. Nothing: no such download.
std::optional<std::string> find_unfinished(const std::string& folder, const std::string& name = {});

}  // namespace gabbro
