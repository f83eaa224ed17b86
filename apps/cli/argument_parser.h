// Reads the arguments of the program into the options that its commands declare.
//
// An argument is an option if it begins with one or two dashes and a letter. "--" ends the options: the rest is text.
// An argument with a space before any "=" is text too, "-hello there", unless its first word names an option: then it
// is refused as two arguments in one. A value is the next argument or follows "="; the value of a short name may be
// attached: -n5. Underscores in a long name count as dashes.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/command_spec.h"

namespace gabbro::cli {

struct Parsed {
  enum class Wants { kAction, kHelp, kVersion };
  Wants wants = Wants::kAction;
  const CommandSpec* command = nullptr;
  std::vector<std::string> notes;  // messages about options that do nothing
};

// Assigns the options' variables. Throws bad_input, with a hint, for arguments that cannot be followed.
Parsed parse_arguments(CommandSpec& root, const std::vector<std::string>& arguments);

// The command that `words` name: {"bench", "llm"}. Throws bad_input, with a suggestion.
const CommandSpec& find_command(const CommandSpec& root, const std::vector<std::string>& words);

}  // namespace gabbro::cli
