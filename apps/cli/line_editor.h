// A line of input from a terminal, with editing and a history that outlives the program (libedit).
#pragma once

#include <histedit.h>

#include <string>
#include <string_view>

namespace gabbro::cli {

class LineEditor {
 public:
  enum class Status { kLine, kEnd, kInterrupted };

  // `history_path` may be empty: then nothing is kept. Prompts go to stderr.
  explicit LineEditor(std::string history_path);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // kInterrupted: Ctrl-C dropped the line. kEnd: Ctrl-D on an empty one, or the terminal is gone.
  // A bracketed paste becomes part of the line with its line breaks, but for one at its end.
  Status read(const char* prompt, std::string& line);

  void remember(const std::string& line);

  // For libedit's callbacks: one character (1; 0 at the end, -1 on an interrupt), and a paste after its first mark.
  int read_character(wchar_t* character);
  unsigned char insert_paste();

 private:
  int read_byte(char* byte);
  bool closes_later(std::string_view end_mark, std::string_view start_mark);

  std::string history_path_;
  const char* prompt_ = "";
  EditLine* editor_;
  History* history_;
  std::string ahead_;  // bytes that were read to look ahead
};

// $GABBRO_HOME/history, or gabbro/history in $XDG_STATE_HOME (an absolute path) or ~/.local/state; its folder is made.
// Empty where none of these variables is set.
std::string history_path();

}  // namespace gabbro::cli
