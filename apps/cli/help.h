// The help page of a command.
#pragma once

#include <string>

#include "apps/cli/command_tree.h"

namespace gabbro::cli {

// Descriptions wrap at words where standard output is a terminal.
std::string help_page(const CommandFacts& command);

// "(default: 0; 0 to 1024)", "(f16 or q8_0; default: f16)": what the description leaves out; empty where that is
// nothing.
std::string option_remark(const OptionFacts& option);

// The description with its remark.
std::string described(const OptionFacts& option);

// "-n, --max-tokens N"
std::string option_heading(const OptionFacts& option);

// "gabbro run [OPTIONS] MODEL [PROMPT]"
std::string usage_line(const CommandFacts& command);

}  // namespace gabbro::cli
