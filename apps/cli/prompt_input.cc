#include "apps/cli/prompt_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

constexpr const char* kWithoutStdin = "--no-stdin or </dev/null does without it";

// The line break that ends the last line is not part of the text.
std::string without_last_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Standard input below a PROMPT. Terminals, /dev/null and other devices have no text.
std::string text_below_prompt() {
  struct stat info = {};
  if (::fstat(STDIN_FILENO, &info) != 0) return {};
  if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode) && !S_ISREG(info.st_mode)) return {};
  if (S_ISREG(info.st_mode) && ::lseek(STDIN_FILENO, 0, SEEK_CUR) > 0) {
    report(
        "note",
        "standard input is left alone: another program reads it (--file - reads the rest, --no-stdin ends this note)");
    return {};
  }
  std::string text = without_last_break(read_standard_input(kWithoutStdin));
  if (!text.empty() && is_terminal(STDERR_FILENO)) {
    report("note",
           fmt::format("{} of standard input stand below the prompt ({})", human_bytes(text.size()), kWithoutStdin));
  }
  return text;
}

}  // namespace

void add_prompt(Command command, PromptInput& input) {
  command
      .option("PROMPT", input.prompt, "The text to answer; -: standard input. Without PROMPT and --file, a chat begins")
      .takes_text()
      .alias("-p,--prompt");
  Option file = command
                    .option("-f,--file", input.file,
                            "Read the prompt, or what stands below PROMPT, from a file; -: standard input")
                    .placeholder("FILE")
                    .file(FileUse::kInput);
  command.flag("--no-stdin", input.no_stdin, "Do not read standard input").excludes(file);
  command.footer(
      "The text of a pipe or a redirected file is added below PROMPT; standard input that another program has begun to "
      "read, as in a loop of `while read`, is left alone. --no-stdin, or </dev/null, keeps it from being read at all: "
      "use it in loops and in jobs whose standard input stays open. A PROMPT that begins with a dash stands after --; "
      "one with a space in it needs no --.");
}

bool is_interactive(const PromptInput& input) {
  return !input.prompt && input.file.empty() && !input.no_stdin && is_terminal(STDIN_FILENO);
}

std::string read_prompt(const PromptInput& input) {
  std::string prompt = input.prompt.value_or("");
  std::string below;
  if (prompt == "-") {
    prompt = without_last_break(read_standard_input());
    if (!input.file.empty()) below = without_last_break(read_input(input.file));
  } else if (!input.file.empty()) {
    below = without_last_break(read_input(input.file));
  } else if (!input.no_stdin && input.prompt) {
    below = text_below_prompt();
  } else if (!input.no_stdin) {
    prompt = without_last_break(read_standard_input("it is the prompt"));
  }
  const std::string text = prompt.empty() || below.empty() ? prompt + below : prompt + "\n\n" + below;
  if (text.empty()) throw Error(ErrorCode::kBadInput, "the prompt is empty", "gabbro run MODEL \"What is ...?\"");
  return text;
}

}  // namespace gabbro::cli
