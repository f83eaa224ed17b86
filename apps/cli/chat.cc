#include "apps/cli/chat.h"

#include <optional>

#include "apps/cli/interrupt.h"
#include "apps/cli/line_editor.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::cli {
namespace {

constexpr const char* kHelp =
    "/reset      forget the conversation; without it, the oldest turns are left out when the context is full\n"
    "/save FILE  write it to a file: JSON where the name ends in .json, else text\n"
    "/exit       leave (also Ctrl-D)\n"
    "A line that ends in \\ continues; \"\"\" begins and ends a text of several lines. Ctrl-C stops an answer.\n";

void say_aside(std::string_view text) {
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
}

// What the user types, as whole inputs.
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
      say_aside("\n");
      return std::nullopt;
    }
    if (status == LineEditor::Status::kInterrupted) {
      if (++interrupts_ >= 2) return std::nullopt;
      say_aside("\n(Ctrl-C again or /exit to leave)\n");
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

void save(const Conversation& conversation, const std::string& path) {
  std::string text;
  if (path.ends_with(".json")) {
    text = conversation.messages().dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    for (const auto& message : conversation.messages()) {
      text += fmt::format("{}: {}\n\n", message["role"].get<std::string>(), message["content"].get<std::string>());
    }
  }
  write_file_atomically(path, std::as_bytes(std::span(text)));
  say_aside(fmt::format("saved to {}\n", printable(path)));
}

void answer(Conversation& conversation, const std::string& input,
            const std::function<void(const GenerateResult&)>& after_answer) {
  const Cancellable cancellable;
  bool ends_line = true;
  const auto show = [&](std::string_view text) {
    print(text);
    ends_line = text.ends_with('\n');
  };
  const GenerateResult result = conversation.say(input, show, cancellable.flag());
  if (!ends_line) print("\n");
  after_answer(result);
}

// Returns false to leave.
bool obey(Conversation& conversation, const std::string& command) {
  const size_t space = command.find(' ');
  const std::string name = command.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : command.substr(space + 1);
  if (name == "/exit" || name == "/quit") return false;
  if (name == "/help") {
    say_aside(kHelp);
  } else if (name == "/reset") {
    conversation.reset();
    say_aside("(forgotten)\n");
  } else if (name == "/save" && !argument.empty()) {
    save(conversation, argument);
  } else if (name == "/save") {
    say_aside("/save needs the name of a file\n");
  } else {
    say_aside(fmt::format("unknown command {}; /help lists them\n", printable(name)));
  }
  return true;
}

}  // namespace

int chat(Conversation& conversation, const std::function<void(const GenerateResult&)>& after_answer) {
  say_aside("/help lists the commands\n");
  Inputs inputs;
  while (const auto input = inputs.next()) {
    try {
      if (input->starts_with('/') && input->find('\n') == std::string::npos) {
        if (!obey(conversation, *input)) break;
      } else if (!input->empty()) {
        answer(conversation, *input, after_answer);
      }
    } catch (const Error& error) {  // a chat survives a prompt that was too long, or a file that cannot be written
      report("error", error.what());
      if (!error.hint().empty()) report("hint", error.hint());
    }
  }
  return inputs.interrupted() ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

}  // namespace gabbro::cli
