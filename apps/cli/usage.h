// What is wrong with a command line, in the words of the user who typed it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::cli {

struct UsageProblem {
  std::string message;  // one line
  std::string hint;     // may be empty
};
UsageProblem explain(const CLI::App& root, const CLI::ParseError& error);

// The subcommand that was chosen, as deep as it goes; `root` where there is none.
const CLI::App& chosen_command(const CLI::App& root);

// The candidate that `word` was probably meant to be: at most a third of its letters away. Empty: none.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gabbro::cli
