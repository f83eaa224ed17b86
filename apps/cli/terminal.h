// The three standard streams: results to stdout, checked; everything else to stderr; a progress bar on a terminal.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "apps/cli/terminal_text.h"

namespace gabbro::cli {

// The reader of our standard output has closed it (`gabbro ... | head -1`): the program ends without a word.
struct OutputClosed : std::runtime_error {
  OutputClosed() : std::runtime_error("standard output was closed by its reader") {}
};

// Ignores SIGPIPE and SIGXFSZ, and makes sure that no file that is opened later becomes a standard stream by accident.
void prepare_streams();

bool is_terminal(int descriptor);

// Columns of the terminal that standard output is; 0 where it is none, or does not tell.
int terminal_columns();

// Writes all of it at once; throws failed() where that cannot be done (a full disk), OutputClosed on a broken pipe.
void print(std::string_view text);
// On one line; invalid UTF-8 becomes U+FFFD.
std::string one_line_json(const nlohmann::ordered_json& document);
// Invalid UTF-8 becomes U+FFFD. On a terminal, characters that it would obey are \u escapes, which mean the same.
void print_json(const nlohmann::ordered_json& document);

// Text of a model or a file on standard output: to a pipe or a file unchanged, on a terminal as TerminalText shows it.
class TextOutput {
 public:
  enum class Lines { kWrapped, kAsTheyAre };
  explicit TextOutput(Lines lines);
  ~TextOutput();  // shows what is held back, where finish() was not reached
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;

  void write(std::string_view text);
  void finish();    // shows what is held back
  void end_line();  // finishes, with a line break where the text does not end in one

 private:
  std::optional<TerminalText> terminal_;  // empty: not a terminal
  bool ends_line_ = true;
};

// To stderr. A message that cannot be written has nowhere else to go.
void say(std::string_view text);

// One message of the program on stderr: "gabbro: error: ...", printable.
void report(std::string_view kind, std::string_view message);

// As say() and report() in a program that serves others and must not wait: a line that no one takes is dropped.
void log_line(std::string_view line);
void log_report(std::string_view kind, std::string_view message);

// "1.5 GiB", "92 MiB", "512 B"
std::string human_bytes(uint64_t bytes);

// Drawn on stderr, where that is a terminal and `wanted`; erased when it is finished.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool wanted);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(double share);  // 0..1

 private:
  std::string label_;
  bool visible_;
  int percent_ = -1;
};

}  // namespace gabbro::cli
