#include "apps/cli/line_editor.h"

#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro::cli {
namespace {

constexpr int kHistoryLines = 1000;

// libedit reads characters by the locale; ours are UTF-8 even where none is set.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// The marks that terminals send around a paste, and the requests for them (xterm's bracketed paste mode).
constexpr std::string_view kPasteStart = "\x1b[200~", kPasteEnd = "\x1b[201~";
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";

bool knows_escape_sequences() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
}

LineEditor& owner(EditLine* editor) {
  void* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return *static_cast<LineEditor*>(self);
}

// Adds an editor function. libedit copies the two texts and never frees them, which the leak sanitizer would report.
void add_function(EditLine* editor, const char* name, const char* help, unsigned char (*function)(EditLine*, int)) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler allowed;
#endif
  el_set(editor, EL_ADDFN, name, help, function);
}

void erase_all(std::string& text, std::string_view part) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
}

// As the line gets it: valid UTF-8, line breaks as \n, none at the end.
std::string pasted_line(std::string text) {
  erase_all(text, kPasteStart);
  erase_all(text, std::string_view("\0", 1));
  for (size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos;) text.erase(at, 1);
  std::ranges::replace(text, '\r', '\n');
  if (text.ends_with('\n')) text.pop_back();
  text::Utf8Stream whole;
  std::string valid = whole.push(text);
  return valid + whole.flush();
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
      editor_, EL_PROMPT, +[](EditLine* editor) -> char* { return const_cast<char*>(owner(editor).prompt_); });
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(
      editor_, EL_GETCFN, +[](EditLine* editor, wchar_t* c) -> int { return owner(editor).read_character(c); });
  // At Ctrl-C the terminal's driver sends the signal first and then throws away what was written: our answer to it.
  el_set(editor_, EL_SETTY, "-d", "+noflsh", nullptr);
  el_source(editor_, nullptr);  // the user's ~/.editrc
  add_function(editor_, "gabbro-paste", "Insert a bracketed paste",
               [](EditLine* editor, int) { return owner(editor).insert_paste(); });
  // A mark of the end without a paste is ignored.
  add_function(editor_, "gabbro-paste-end", "Ignore the end of a paste",
               [](EditLine*, int) -> unsigned char { return CC_NORM; });
  el_set(editor_, EL_BIND, kPasteStart.data(), "gabbro-paste", nullptr);
  el_set(editor_, EL_BIND, kPasteEnd.data(), "gabbro-paste-end", nullptr);
}

LineEditor::~LineEditor() {
  HistEvent event;
  // A history that cannot be kept (a full disk, a read-only home) does not cause a message at the end.
  if (!history_path_.empty()) history(history_, &event, H_SAVE, history_path_.c_str());
  history_end(history_);
  el_end(editor_);
}

LineEditor::Status LineEditor::read(const char* prompt, std::string& line) {
  prompt_ = prompt;
  const Cancelable cancelable;
  int count = 0;
  // el_gets() writes the prompt before it takes the terminal over; a Ctrl-D in between would reach us as a zero byte.
  el_set(editor_, EL_PREP_TERM, 1);
  el_resize(editor_);
  if (knows_escape_sequences()) say(kPasteOn);
  const char* text = el_gets(editor_, &count);
  if (knows_escape_sequences()) say(kPasteOff);
  if (cancelable.canceled()) {
    el_reset(editor_);
    return Status::kInterrupted;
  }
  if (text == nullptr || count <= 0) return Status::kEnd;
  line.assign(text, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  return Status::kLine;
}

// libedit's own reader would try again after an interrupt.
int LineEditor::read_byte(char* byte) {
  if (ahead_.empty()) {
    if (!wait_for_input(STDIN_FILENO)) return -1;
    const ssize_t count = ::read(STDIN_FILENO, byte, 1);
    return count < 0 ? -1 : static_cast<int>(count);
  }
  *byte = ahead_.front();
  ahead_.erase(0, 1);
  return 1;
}

int LineEditor::read_character(wchar_t* character) {
  std::mbstate_t state = {};
  while (true) {
    char byte = 0;
    if (const int count = read_byte(&byte); count != 1) return count;
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // more bytes belong to it
    if (length == static_cast<size_t>(-1)) *character = L'\xfffd';
    return 1;
  }
}

// Whether this end mark is part of the pasted text: another one is here already, and no paste begins before it.
bool LineEditor::closes_later(std::string_view end_mark, std::string_view start_mark) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  char buffer[4096];
  while (::poll(&input, 1, 0) == 1) {
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count <= 0) break;
    ahead_.append(buffer, static_cast<size_t>(count));
  }
  const size_t end = ahead_.find(end_mark);
  return end != std::string::npos && end < ahead_.find(start_mark);
}

unsigned char LineEditor::insert_paste() {
  std::string text;
  while (true) {
    char byte = 0;
    const int count = read_byte(&byte);
    if (count < 0) return CC_EOF;
    if (count == 0) break;
    text += byte;
    if (!text.ends_with(kPasteEnd)) continue;
    text.resize(text.size() - kPasteEnd.size());
    if (!closes_later(kPasteEnd, kPasteStart)) break;
  }
  const std::string line = pasted_line(std::move(text));
  return el_insertstr(editor_, line.c_str()) == -1 && !line.empty() ? CC_ERROR : CC_REFRESH;
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
  if (folder.empty() && variable("XDG_STATE_HOME").is_absolute()) folder = variable("XDG_STATE_HOME") / "gabbro";
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") / ".local" / "state" / "gabbro";
  if (folder.empty()) return {};
  std::error_code ignored;  // loading and saving then do nothing
  fs::create_directories(folder, ignored);
  return folder / "history";
}

}  // namespace gabbro::cli
