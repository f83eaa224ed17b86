// The three standard streams: results to stdout, checked; everything else to stderr; a progress bar on a terminal.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gabbro::cli {

// Nobody reads our standard output any more (`gabbro ... | head -1`): the program ends without a word.
struct OutputClosed : std::runtime_error {
  OutputClosed() : std::runtime_error("standard output was closed by its reader") {}
};

// Ignores SIGPIPE, and makes sure that no file that is opened later becomes a standard stream by accident.
void prepare_streams();

bool is_terminal(int descriptor);

// Writes all of it at once; throws failed() where that cannot be done (a full disk), OutputClosed on a broken pipe.
void print(std::string_view text);
void print_json(const nlohmann::ordered_json& document);  // invalid UTF-8 becomes U+FFFD

// One message of the program on stderr: "gabbro: error: ...", with control characters made harmless.
void report(std::string_view kind, std::string_view message);

// What can be shown on one line of a terminal: valid UTF-8, control characters as \n or \x1b.
std::string printable(std::string_view text);

// All of standard input. Throws bad_input when it is larger than `limit`.
std::string read_standard_input(size_t limit = size_t{256} << 20);

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
