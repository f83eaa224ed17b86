// The declared commands and options, behind command_line.h's handles, and how each takes its value.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/command_line.h"

namespace gabbro::cli {

struct OptionSpec {
  OptionFacts facts;
  std::vector<std::string> off_names, off_aliases;  // of a flag: these make it false
  bool hidden = false;                              // accepted, but not shown
  bool repeats = false;
  bool rest = false;         // a positional argument that takes all words that follow
  bool maybe_value = false;  // Command::Value::kMaybe
  bool shows_help = false;   // -h
  bool shows_version = false;
  FileUse file = FileUse::kNone;
  std::string note;  // printed where the option is given
  std::optional<int64_t> least, most;
  std::vector<const OptionSpec*> needs, excludes;
  std::function<void(const std::string&)> check;
  std::function<void(bool)> set;                                                          // of a flag
  std::function<void(const OptionSpec&, const std::string&, const std::string&)> assign;  // given name, text

  // Values given on the command line.
  std::string given_as;  // "--temp"; empty: not given
  std::vector<std::string> given;

  bool turns_off(const std::string& name_given) const;
  bool is_given() const { return !given_as.empty(); }
  std::string name() const;  // as messages call it: given_as, or its first long name
};

struct CommandSpec {
  std::string name, description, footer;
  std::vector<std::string> aliases, examples;
  bool hidden = false, needs_command = false;
  CommandSpec* parent = nullptr;
  Action action;
  std::vector<std::unique_ptr<OptionSpec>> options;
  std::vector<std::unique_ptr<CommandSpec>> commands;

  OptionSpec& add_option(const std::string& names, const std::string& description);
  CommandSpec* find_command(const std::string& word) const;
};

// "--top_k" as "--top-k": underscores of other programs.
std::string with_dashes(const std::string& name);

CommandFacts facts_of(const CommandSpec& command);

}  // namespace gabbro::cli
