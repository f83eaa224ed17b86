#include "apps/cli/tool_commands.h"

#include <unistd.h>

#include <algorithm>

#include "apps/cli/interrupt.h"
#include "apps/cli/line_editor.h"
#include "apps/cli/terminal.h"
#include "src/base/child_process.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kToolLimit{30};

enum class Consent { kYes, kNo, kEnd };

Consent ask() {
  LineEditor editor("");
  std::string line;
  const LineEditor::Status status = editor.read("run it? [y/N] ", line);
  if (status != LineEditor::Status::kLine) {
    say("\n");
    return Consent::kEnd;
  }
  return line == "y" || line == "Y" || line == "yes" ? Consent::kYes : Consent::kNo;
}

std::string shown_command(const RunTool& tool) {
  std::string words;
  for (const std::string& word : tool.command) words += (words.empty() ? "" : " ") + word;
  return printable(words);
}

std::string valid_utf8(const std::string& bytes) {
  text::Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.flush();
}

// The arguments as an object, or as the text that the model wrote in place of one.
Json call_document(const ModelCall& call) {
  Json arguments = Json::parse(call.arguments, nullptr, false);
  return {{"name", call.name}, {"arguments", arguments.is_object() ? std::move(arguments) : Json(call.arguments)}};
}

}  // namespace

void print_calls(const Json& calls) {
  for (const Json& call : calls) {
    const std::string line = one_line_json(call);
    print((is_terminal(STDOUT_FILENO) ? printable(line) : line) + "\n");
  }
}

Json ToolCommands::follow(const Conversation& conversation, const std::function<void(const Json&)>& go_on) const {
  constexpr int kMostRounds = 50;
  for (int round = 0; !conversation.calls().empty(); ++round) {
    std::optional<Json> results;
    if (round < kMostRounds) {
      results = answer(conversation.calls());
    } else {
      report("note", fmt::format("{} answers in a row have called tools: the calls are not run", round));
    }
    if (!results) {
      Json left = Json::array();
      for (const ModelCall& call : conversation.calls()) left.push_back(call_document(call));
      return left;
    }
    go_on(*results);
  }
  return Json::array();
}

std::optional<Json> ToolCommands::answer(const std::vector<ModelCall>& calls) const {
  const auto is_runnable = [&](const ModelCall& call) {
    const RunTool* const tool = tools_.find(call.name);
    return tool != nullptr && !tool->command.empty();
  };
  if (!std::ranges::all_of(calls, is_runnable)) return std::nullopt;
  Json results = Json::array();
  for (const ModelCall& call : calls) {
    const RunTool& tool = *tools_.find(call.name);
    say(fmt::format("{}: {} < {}\n", tool.name, shown_command(tool), printable(call.arguments)));
    const Consent consent = asks_ ? ask() : Consent::kYes;
    if (consent == Consent::kEnd) return std::nullopt;
    std::string result = consent == Consent::kYes ? run(tool, call) : "error: the user does not allow this call";
    results.push_back(
        {{"role", "tool"}, {"name", call.name}, {"tool_call_id", call.id}, {"content", std::move(result)}});
  }
  return results;
}

// The output of the tool's program; what went wrong stands before it.
std::string ToolCommands::run(const RunTool& tool, const ModelCall& call) const {
  const Cancelable cancelable;
  const ChildResult done = run_child({.command = tool.command,
                                      .input = call.arguments,
                                      .searches_path = true,
                                      .limit = kToolLimit,
                                      .cancel = cancelable.flag()});
  if (cancelable.canceled()) exit_interrupted();
  std::string wrong;
  if (!done.started) {
    wrong = fmt::format("cannot run '{}': {}", tool.command[0], done.ending);
  } else if (done.timed_out) {
    wrong = fmt::format("it did not end within {} s and was killed", kToolLimit.count());
  } else if (!done.succeeded) {
    wrong = done.ending;
  }
  std::string output = valid_utf8(done.output);
  while (output.ends_with('\n')) output.pop_back();
  if (done.dropped > 0) output += fmt::format("\n[{} more bytes are left out]", done.dropped);
  if (wrong.empty()) return output;
  report("warning", fmt::format("the tool {}: {}", tool.name, wrong));
  return "error: " + wrong + (output.empty() ? "" : "\n") + output;
}

}  // namespace gabbro::cli
