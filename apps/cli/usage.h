// Errors of a command line, in the words of the user who typed it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/command_tree.h"
#include "src/base/error.h"

namespace gabbro::cli {

// About a word that no command or option takes, with what was probably meant.
Error unexpected_word(const CommandFacts& command, const std::string& word);

// The hint where there is nothing better: "gabbro run --help lists its options".
std::string see_help(const CommandFacts& command);

// The candidate that `word` was probably meant to be: one that begins with it (two letters at least), else the
// nearest one, at most a third of its letters away. Leading dashes, case and underscores do not count. Empty: none.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gabbro::cli
