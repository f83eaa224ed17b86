// The tree of commands as plain data: the source of help pages, the manual page, completion scripts and error messages.
#pragma once

#include <string>
#include <vector>

namespace gabbro::cli {

struct OptionFacts {
  std::vector<std::string> short_names;  // "-n"
  std::vector<std::string> long_names;   // "--max-tokens"
  std::vector<std::string> aliases;      // other spellings that are accepted: "--n-predict"
  std::string argument;                  // "MODEL": a positional argument, which may have names too
  std::string description;
  bool takes_value = false;         // after its name
  bool required = false;            // without it the command is refused
  bool is_text = false;             // any text: a prompt
  std::string value;                // the value's placeholder, "FILE"; empty for flags
  std::string default_value;        // empty: there is none
  std::string range;                // "0 to 1024"; empty: any
  std::vector<std::string> values;  // the only ones that are accepted; empty: any
};

struct CommandFacts {
  std::string path;  // "bench llm"; empty: the program itself
  std::string name;  // "llm"
  std::string description;
  std::vector<OptionFacts> options;
  std::vector<CommandFacts> commands;  // subcommands, without the hidden ones
  std::vector<std::string> aliases;    // other names of the command that are accepted: "ls"
  std::vector<std::string> examples;   // command lines
  std::string footer;
};

}  // namespace gabbro::cli
