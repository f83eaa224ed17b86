// The lines of `run --prompts`: what each asks, with its own settings, or what is wrong with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/options.h"

namespace gabbro::cli {

struct PromptLine {
  size_t number = 0;  // in the file, from 1 on
  std::string text;   // a prompt, or a JSON object
};

// Lines that are not empty. Throws bad_input for a file that cannot be read or has none.
std::vector<PromptLine> read_prompt_lines(const std::string& file);

struct PromptRow {
  size_t line = 0;
  nlohmann::ordered_json id;        // as the line has it; null: none
  nlohmann::ordered_json prompt;    // a text; null: it has messages, or it cannot be read
  nlohmann::ordered_json messages;  // of the conversation, with the system's
  nlohmann::ordered_json tools;     // null: none
  GenerateOptions generate;
  std::string error;  // what is wrong with the line; empty: nothing
};

// The row of a line; `defaults` holds for all other settings. A line that begins with "{" is a JSON object with
// "prompt" or "messages", and settings: the options' names with underscores. Never throws for what a line says.
PromptRow read_row(const PromptLine& line, const GenerationOptions& defaults);

}  // namespace gabbro::cli
