// --tools of `run`: the tools that a model may call, and the programs that answer the calls of some of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/text/chat/tool_calls.h"

namespace gabbro::cli {

struct RunTool {
  std::string name;
  std::vector<std::string> command;  // a program and its arguments; empty: calls are printed
};

class RunTools {
 public:
  RunTools() = default;
  // Reads a list of tools. Throws bad_input that names the file, the tool and its member.
  static RunTools read(const std::string& path);

  bool empty() const { return tools_.empty(); }
  bool has_commands() const;
  const RunTool* find(const std::string& name) const;             // null: none has the name
  const nlohmann::ordered_json& shown() const { return shown_; }  // to the template: without "command"
  const text::KnownTools& known() const { return known_; }

 private:
  void add(const nlohmann::ordered_json& given);

  std::vector<RunTool> tools_;
  nlohmann::ordered_json shown_ = nlohmann::ordered_json::array();
  text::KnownTools known_;
};

}  // namespace gabbro::cli
