#include "apps/cli/terminal.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::cli {

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // writes beyond `ulimit -f` fail with EFBIG
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // Opened the wrong way round on purpose: using the closed stream stays an error.
    open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

int terminal_columns() {
  winsize size = {};
  if (!is_terminal(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR) {
      throw failed("cannot write to standard output: {}", std::strerror(errno));
    }
  }
}

namespace {

// The serializer has escaped what is below 0x20; the rest of what a terminal obeys stands in strings alone.
std::string escaped_json(std::string_view document) {
  std::string out;
  for (size_t at = 0; at < document.size();) {
    const text::Character c = text::read_utf8(document, at);
    const bool escape = c.code_point != '\n' && !escape_of(c.code_point).empty();
    escape ? out += fmt::format("\\u{:04x}", c.code_point) : out += document.substr(at, c.length);
    at += c.length;
  }
  return out;
}

}  // namespace

std::string one_line_json(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_json(const nlohmann::ordered_json& document) {
  std::string text = document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  print(is_terminal(STDOUT_FILENO) ? escaped_json(text) : text);
}

TextOutput::TextOutput(Lines lines) {
  if (is_terminal(STDOUT_FILENO)) terminal_.emplace(lines == Lines::kWrapped ? terminal_columns : [] { return 0; });
}

TextOutput::~TextOutput() {
  try {
    finish();
  } catch (const std::exception&) {  // an error is already on its way
  }
}

void TextOutput::write(std::string_view text) {
  if (text.empty()) return;
  ends_line_ = text.ends_with('\n');
  if (terminal_) {
    print(terminal_->push(text));
  } else {
    print(text);
  }
}

void TextOutput::finish() {
  if (terminal_) print(terminal_->finish());
}

void TextOutput::end_line() {
  finish();
  if (!ends_line_) write("\n");
}

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return;
    }
  }
}

namespace {

std::string report_line(std::string_view kind, std::string_view message) {
  return fmt::format("{}{}: {}", kind == "hint" ? "" : "gabbro: ", kind, printable(message));
}

}  // namespace

void report(std::string_view kind, std::string_view message) { say(report_line(kind, message) + "\n"); }

void log_line(std::string_view line) {
  pollfd taker = {STDERR_FILENO, POLLOUT, 0};  // a pipe that takes a byte takes PIPE_BUF of them
  if (poll(&taker, 1, 0) > 0 && (taker.revents & POLLOUT) != 0) say(fmt::format("{}\n", line.substr(0, PIPE_BUF - 1)));
}

void log_report(std::string_view kind, std::string_view message) { log_line(report_line(kind, message)); }

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 || value >= 100 ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                   : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

ProgressBar::ProgressBar(std::string label, bool wanted)
    : label_(std::move(label)), visible_(wanted && is_terminal(STDERR_FILENO)) {}

void ProgressBar::show(double share) {
  const int percent = static_cast<int>(std::clamp(share, 0.0, 1.0) * 100);
  if (!visible_ || percent == percent_) return;
  percent_ = percent;
  constexpr int kWidth = 30;
  const int full = percent * kWidth / 100;
  say(fmt::format("\r{} [{:=<{}}{: <{}}] {:3} %", label_, "", full, "", kWidth - full, percent));
}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) say("\r\x1b[K");
}

}  // namespace gabbro::cli
