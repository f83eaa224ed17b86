#include "apps/cli/line_editor.h"

#include <langinfo.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <new>

#include "apps/cli/interrupt.h"

namespace gabbro::cli {
namespace {

constexpr int kHistoryLines = 1000;

// libedit reads characters by the locale; ours are UTF-8 even where none is set.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// One character: 1, or 0 at the end, or -1 on an interrupt (libedit's own reader would try again instead).
int read_character(EditLine*, wchar_t* character) {
  std::mbstate_t state = {};
  while (true) {
    char byte = 0;
    if (!wait_for_input(STDIN_FILENO)) return -1;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 0) return 0;
    if (count < 0) return -1;
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // more bytes belong to it
    if (length == static_cast<size_t>(-1)) *character = L'\xfffd';
    return 1;
  }
}

}  // namespace

LineEditor::LineEditor(std::string history_path) : history_path_(std::move(history_path)) {
  use_utf8_locale();
  editor_ = el_init("gabbro", stdin, stderr, stderr);
  history_ = history_init();
  if (editor_ == nullptr || history_ == nullptr) throw std::bad_alloc();
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  if (!history_path_.empty()) history(history_, &event, H_LOAD, history_path_.c_str());  // the first time there is none
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(
      editor_, EL_PROMPT, +[](EditLine* editor) -> char* {
        void* self = nullptr;
        el_get(editor, EL_CLIENTDATA, &self);
        return const_cast<char*>(static_cast<LineEditor*>(self)->prompt_);
      });
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_GETCFN, read_character);
  // At Ctrl-C the terminal's driver sends the signal first and then throws away what was written: our answer to it.
  el_set(editor_, EL_SETTY, "-d", "+noflsh", nullptr);
  el_source(editor_, nullptr);  // the user's ~/.editrc
}

LineEditor::~LineEditor() {
  HistEvent event;
  // A history that cannot be kept (a full disk, a read-only home) is no reason to complain on leaving.
  if (!history_path_.empty()) history(history_, &event, H_SAVE, history_path_.c_str());
  history_end(history_);
  el_end(editor_);
}

LineEditor::Status LineEditor::read(const char* prompt, std::string& line) {
  prompt_ = prompt;
  const Cancellable cancellable;
  int count = 0;
  // el_gets() writes the prompt before it takes the terminal over; a Ctrl-D in between would reach us as a zero byte.
  el_set(editor_, EL_PREP_TERM, 1);
  const char* text = el_gets(editor_, &count);
  if (cancellable.cancelled()) {
    el_reset(editor_);
    return Status::kInterrupted;
  }
  if (text == nullptr || count <= 0) return Status::kEnd;
  line.assign(text, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  return Status::kLine;
}

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  history(history_, &event, H_ENTER, line.c_str());
}

std::string history_path() {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  fs::path folder = variable("GABBRO_HOME");
  if (folder.empty() && !variable("XDG_STATE_HOME").empty()) folder = variable("XDG_STATE_HOME") / "gabbro";
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") / ".local" / "state" / "gabbro";
  if (folder.empty()) return {};
  std::error_code ignored;  // loading and saving then do nothing
  fs::create_directories(folder, ignored);
  return folder / "history";
}

}  // namespace gabbro::cli
