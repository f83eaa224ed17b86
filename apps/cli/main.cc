// The program: reads the command line, runs one command, and turns whatever went wrong into one line and an exit code.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <new>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

constexpr const char* kDescription = "Runs AI models on AMD GPUs, NVIDIA GPUs and CPUs.";
constexpr int kBadUsage = static_cast<int>(ErrorCode::kBadInput);
constexpr int kFailure = static_cast<int>(ErrorCode::kFailed);

Actions add_commands(CLI::App& root) {
  Actions actions;
  for (const auto add : {add_run, add_inspect, add_tokenize, add_template, add_logits, add_perplexity, add_bench,
                         add_tune, add_fit, add_devices, add_doctor, add_list, add_completion, add_man}) {
    add(root, actions);
  }
  return actions;
}

int fail(const Error& error) {
  report("error", error.what());
  if (!error.hint().empty()) report("hint", error.hint());
  return static_cast<int>(error.code());
}

int run_program(int argc, char** argv) {
  CLI::App root(kDescription, "gabbro");
  root.set_version_flag("--version", "gabbro " GABBRO_VERSION);
  root.set_help_flag("-h,--help", "Say what there is, and exit");
  root.require_subcommand(1);
  const Actions actions = add_commands(root);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;
    root.exit(wanted, text, text);
    print(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    const UsageProblem problem = explain(root, error);
    report("error", problem.message);
    report("hint", problem.hint);
    return kBadUsage;
  }
  return actions.at(&chosen_command(root))();
}

}  // namespace
}  // namespace gabbro::cli

int main(int argc, char** argv) {
  using namespace gabbro;
  cli::prepare_streams();
  cli::install_interrupt_handler();
  spdlog::set_default_logger(spdlog::stderr_color_mt("gabbro"));
  spdlog::set_pattern("gabbro: %l: %v");
  spdlog::set_level(spdlog::level::warn);
  try {
    return cli::run_program(argc, argv);
  } catch (const Error& error) {
    // Who pressed Ctrl-C knows what happened.
    return error.code() == ErrorCode::kInterrupted ? static_cast<int>(error.code()) : cli::fail(error);
  } catch (const cli::OutputClosed&) {
    return cli::kFailure;
  } catch (const std::bad_alloc&) {
    return cli::fail(Error(ErrorCode::kNoDevice, "not enough memory"));
  } catch (const std::exception& error) {
    return cli::fail(failed("{}", error.what()));
  }
}
