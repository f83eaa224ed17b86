// Adapters that a prompt names, as A1111 writes them: <lora:name:0.8>.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

struct NamedLora {
  std::string name;
  double strength = 1;
};

struct PromptLoras {
  std::string prompt;  // without them
  std::vector<NamedLora> loras;
};

// <lora:NAME>, <lora:NAME:STRENGTH>, and <lora:NAME:STRENGTH:STRENGTH> with two equal ones (text encoder and U-Net).
// Throws bad_input that names the words: strengths that are not numbers, or that differ.
PromptLoras read_prompt_loras(std::string_view prompt);

// The file of an adapter by its name: FOLDER/NAME.safetensors, or a file of this name in a folder inside. Throws
// bad_input if there is none.
std::string find_lora(const std::string& folder, const std::string& name);

}  // namespace gabbro::pictures
