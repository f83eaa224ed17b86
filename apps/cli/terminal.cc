#include "apps/cli/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/text/utf8.h"

namespace gabbro::cli {

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // Opened the wrong way round on purpose: using the closed stream stays an error.
    open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

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

void print_json(const nlohmann::ordered_json& document) {
  print(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const text::Character c = text::read_utf8(text, at);
    if (c.length == 0) {
      out += text::kReplacement;
      at += std::max<size_t>(1, c.broken);
      continue;
    }
    if (c.code_point == '\n') {
      out += "\\n";
    } else if (c.code_point == '\t') {
      out += "\\t";
    } else if (c.code_point == '\r') {
      out += "\\r";
    } else if (c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0)) {
      out += fmt::format("\\x{:02x}", c.code_point);
    } else {
      out += text.substr(at, c.length);
    }
    at += c.length;
  }
  return out;
}

void report(std::string_view kind, std::string_view message) {
  const std::string line = fmt::format("{}{}: {}\n", kind == "hint" ? "" : "gabbro: ", kind, printable(message));
  // A message that cannot be written has nowhere else to go.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

std::string read_standard_input(size_t limit) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count > 0) {
      text.append(buffer, static_cast<size_t>(count));
    } else if (errno != EINTR) {
      throw bad_input("cannot read standard input: {}", std::strerror(errno));
    }
    if (text.size() > limit) throw bad_input("standard input is larger than {}", human_bytes(limit));
  }
}

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
  fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {:3} %", label_, "", full, "", kWidth - full, percent);
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
}

}  // namespace gabbro::cli
