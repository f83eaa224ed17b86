// The program: reads the command line, runs one command, and turns whatever went wrong into one line and an exit code.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <new>
#include <span>
#include <string_view>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "gabbro/file_faults.h"
#include "src/backend/device_reports.h"
#include "src/backend/plugin.h"
#include "src/base/error.h"
#include "src/engine/worker/child.h"

namespace gabbro::cli {
namespace {

constexpr int kFailure = static_cast<int>(ErrorCode::kFailed);

int fail(const Error& error) {
  report("error", error.what());
  if (!error.hint().empty()) report("hint", error.hint());
  return static_cast<int>(error.code());
}

int run_program(int argc, char** argv) {
  CommandLine command_line("gabbro", GABBRO_VERSION, "Runs AI models on AMD GPUs, NVIDIA GPUs and CPUs.");
#ifdef GABBRO_FIRST_PROGRAM
  for (const auto add : kFirstCommands) add(command_line.root());
#else
  for (const auto add : kCommands) add(command_line.root());
#endif
  return command_line.run(argc, argv);
}

bool wants_debug(std::span<char* const> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--log-level=debug") return true;
    if (word == "--log-level" && i + 1 < words.size() && words[i + 1] == std::string_view("debug")) return true;
  }
  return false;
}

void log_skipped_plugins() {
  for (const Plugin& plugin : load_plugins()) {
    for (const auto& file : plugin.skipped) {
      spdlog::debug("plugin {} is skipped: an earlier folder has {}", file.string(), plugin.name);
    }
  }
}

// Erases a progress bar on this line first.
void say_progress(const char* line) {
  say(fmt::format("{}gabbro: {}\n", is_terminal(STDERR_FILENO) ? "\r\x1b[K" : "", line));
}

}  // namespace
}  // namespace gabbro::cli

int main(int argc, char** argv) {
  using namespace gabbro;
  cli::prepare_streams();
  handle_file_faults(FileFault::kExit);
  spdlog::set_default_logger(spdlog::stderr_color_mt("gabbro"));
  spdlog::set_pattern("gabbro: %l: %v");
  set_notice_handler([](const char* line) { spdlog::warn("{}", line); });
  set_progress_sink(cli::say_progress);
  if (argc == 2 && argv[1] == std::string_view(cli::kWorkerCommand)) return worker::run_child();
  install_abort_handler(STDERR_FILENO);
  cli::install_interrupt_handler();
  const bool debug = cli::wants_debug({argv, static_cast<size_t>(argc)});
  spdlog::set_level(debug ? spdlog::level::debug : spdlog::level::warn);
  try {
    if (debug) cli::log_skipped_plugins();
    return cli::run_program(argc, argv);
  } catch (const Error& error) {
    // No message: the user pressed Ctrl-C.
    return error.code() == ErrorCode::kInterrupted ? static_cast<int>(error.code()) : cli::fail(error);
  } catch (const cli::OutputClosed&) {
    return cli::kFailure;
  } catch (const std::bad_alloc&) {
    return cli::fail(Error(ErrorCode::kNoDevice, "not enough memory"));
  } catch (const std::exception& error) {
    return cli::fail(failed("{}", error.what()));
  }
}
