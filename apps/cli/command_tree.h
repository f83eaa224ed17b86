// The tree of commands as plain data: what completion scripts, the manual page and error messages are made from.
#pragma once

#include <string>
#include <vector>

namespace gabbro::cli {

struct OptionFacts {
  std::vector<std::string> short_names;  // "-n"
  std::vector<std::string> long_names;   // "--max-tokens"
  std::string argument;                  // "MODEL", where there are no names: an argument that stands by itself
  std::string description;
  bool takes_value = false;   // behind its name; CLI11 says so of flags too
  std::string value;          // "FILE", "N:INT in [0 - 1024]"; empty for flags and arguments
  std::string default_value;  // empty: none is shown
};

struct CommandFacts {
  std::string path;  // "bench llm"; empty: the program itself
  std::string name;  // "llm"
  std::string description;
  std::vector<OptionFacts> options;
  std::vector<CommandFacts> commands;  // below this one, without the hidden ones
};

}  // namespace gabbro::cli
