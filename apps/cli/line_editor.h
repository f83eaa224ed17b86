// A line of input from a terminal, with editing and a history that outlives the program (libedit).
#pragma once

#include <histedit.h>

#include <string>

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
  Status read(const char* prompt, std::string& line);

  void remember(const std::string& line);

 private:
  std::string history_path_;
  const char* prompt_ = "";
  EditLine* editor_;
  History* history_;
};

// $GABBRO_HOME/history, or gabbro/history in the XDG state folder; its folder is made. Empty where there is no home.
std::string history_path();

}  // namespace gabbro::cli
