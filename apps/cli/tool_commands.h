// Runs the programs of tools that a model calls, once the user has allowed each call.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/cli/conversation.h"
#include "apps/cli/run_tools.h"

namespace gabbro::cli {

class ToolCommands {
 public:
  // `asks`: before each call, on the terminal.
  ToolCommands(const RunTools& tools, bool asks) : tools_(tools), asks_(asks) {}

  // After an answer: runs its calls and passes their results, as messages, to `go_on`, which makes the next answer of
  // `conversation`; until an answer has no calls. Returns the calls that were not run, each {"name", "arguments"}: of
  // an answer that calls a tool without a command, or when the user has ended the questions.
  nlohmann::ordered_json follow(const Conversation& conversation,
                                const std::function<void(const nlohmann::ordered_json&)>& go_on) const;

 private:
  std::optional<nlohmann::ordered_json> answer(const std::vector<ModelCall>& calls) const;
  std::string run(const RunTool& tool, const ModelCall& call) const;

  const RunTools& tools_;
  const bool asks_;
};

// Prints calls that were not run, one a line.
void print_calls(const nlohmann::ordered_json& calls);

}  // namespace gabbro::cli
