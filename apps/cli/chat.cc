#include "apps/cli/chat.h"

#include <optional>

#include "apps/cli/chat_settings.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/line_editor.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::cli {
namespace {

constexpr const char* kHelp =
    "/reset      forget the conversation (also /clear); without it, the oldest turns leave when the context is full\n"
    "/save FILE  write it to a file: JSON where the name ends in .json, else text\n"
    "/set parameter NAME VALUE   change an option of generation: temperature 0.7\n"
    "/set system TEXT            change the system message\n"
    "/exit       leave (also /quit, /bye, Ctrl-D)\n"
    "/help       this (also /?)\n"
    "A line that ends in \\ continues; \"\"\" begins and ends a text of several lines; a pasted text is one message.\n"
    "Ctrl-C stops an answer.\n";

// The user's input, one whole input at a time.
class Inputs {
 public:
  Inputs() : editor_(history_path()) {}

  // nullopt: the end. An interrupt drops the input and gives an empty one; the second in a row sets `interrupted`.
  std::optional<std::string> next();
  bool interrupted() const { return interrupts_ >= 2; }

 private:
  std::string editor_line_;
  LineEditor editor_;
  int interrupts_ = 0;
};

std::optional<std::string> Inputs::next() {
  constexpr std::string_view kQuotes = "\"\"\"";
  std::string input;
  bool quoted = false, first = true;
  while (true) {
    const auto status = editor_.read(first ? "> " : "... ", editor_line_);
    if (status == LineEditor::Status::kEnd) {
      say("\n");
      return std::nullopt;
    }
    if (status == LineEditor::Status::kInterrupted) {
      if (++interrupts_ >= 2) return std::nullopt;
      say("\n(Ctrl-C again or /exit to leave)\n");
      return std::string();
    }
    interrupts_ = 0;
    std::string_view line = editor_line_;
    if (first && line.starts_with(kQuotes)) {
      quoted = true;
      line.remove_prefix(kQuotes.size());
    }
    first = false;
    const bool closes = quoted && line.ends_with(kQuotes);
    const bool continues = quoted ? !closes : line.ends_with('\\');
    if (closes) line.remove_suffix(kQuotes.size());
    if (!quoted && continues) line.remove_suffix(1);
    input += line;
    if (!continues) break;
    input += '\n';
  }
  if (!input.empty()) editor_.remember(input);
  return input;
}

void save(const Conversation& conversation, const std::string& path, const InputFiles& inputs) {
  if (is_standard_output(path)) throw bad_input("/save {}: needs the name of a file", path);
  inputs.refuse_output(path);
  std::string text;
  if (path.ends_with(".json")) {
    text = conversation.messages().dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    for (const auto& message : conversation.messages()) {
      text += fmt::format("{}: {}\n\n", message["role"].get<std::string>(), message["content"].get<std::string>());
    }
  }
  write_file_atomically(path, std::as_bytes(std::span(text)));
  say(fmt::format("saved to {}\n", printable(path)));
}

void answer(Conversation& conversation, const ToolCommands* tools, const std::string& input, bool wrap,
            const std::function<void(const GenerateResult&)>& after_answer) {
  const auto show_answer = [&](const nlohmann::ordered_json* results) {
    const Cancelable cancelable;
    TextOutput output(wrap ? TextOutput::Lines::kWrapped : TextOutput::Lines::kAsTheyAre);
    const auto show = [&](std::string_view text) { output.write(text); };
    const GenerateResult result = results != nullptr ? conversation.go_on(*results, show, cancelable.flag())
                                                     : conversation.say(input, show, cancelable.flag());
    output.end_line();
    after_answer(result);
  };
  show_answer(nullptr);
  if (tools != nullptr) print_calls(tools->follow(conversation, [&](const auto& results) { show_answer(&results); }));
}

// Returns false to leave.
bool obey(Conversation& conversation, const std::string& command, const InputFiles& files) {
  const size_t space = command.find(' ');
  const std::string name = command.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : command.substr(space + 1);
  if (name == "/exit" || name == "/quit" || name == "/bye") return false;
  if (name == "/help" || name == "/?") {
    say(kHelp);
  } else if (name == "/reset" || name == "/clear") {
    conversation.reset();
    say("(forgotten)\n");
  } else if (name == "/set") {
    say(change_setting(conversation, argument));
  } else if (name == "/save" && !argument.empty()) {
    save(conversation, argument, files);
  } else if (name == "/save") {
    say("/save needs the name of a file\n");
  } else {
    const std::string meant = closest(name.substr(1), {"help", "reset", "clear", "save", "set", "exit", "quit", "bye"});
    say(fmt::format("unknown command {}; {}\n", printable(name),
                    meant.empty() ? "/help lists them" : fmt::format("did you mean /{}?", meant)));
  }
  return true;
}

}  // namespace

int chat(Conversation& conversation, const ToolCommands* tools, const InputFiles& files, bool wrap,
         const std::function<void(const GenerateResult&)>& after_answer) {
  say("/help lists the commands\n");
  Inputs inputs;
  while (const auto input = inputs.next()) {
    try {
      if (input->starts_with('/') && input->find('\n') == std::string::npos) {
        if (!obey(conversation, *input, files)) break;
      } else if (!input->empty()) {
        answer(conversation, tools, *input, wrap, after_answer);
      }
    } catch (const Error& error) {  // a chat survives a prompt that was too long, or a file that cannot be written
      report("error", error.what());
      if (!error.hint().empty()) report("hint", error.hint());
    }
  }
  return inputs.interrupted() ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

}  // namespace gabbro::cli
