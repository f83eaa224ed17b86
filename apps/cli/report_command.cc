#include "apps/cli/report_command.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/report/report.h"

namespace gabbro::cli {
namespace {

constexpr const char* kPartCommand = "report-part";

// The user's word for a fault on purpose, which no option but --yes gives in advance.
bool user_agrees() {
  if (!is_terminal(STDIN_FILENO)) return false;
  say("--faults makes a kernel store to an address that does not exist. The driver resets the card: the display may\n"
      "freeze or go dark, and programs that use the card may end. Save your work first.\nGo on? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int make_card_report(const ReportRequest& request) {
  if (!request.part.model.empty() && !std::filesystem::exists(request.part.model))
    throw bad_input("--model {}: no such file", request.part.model);
  if (request.faults && !request.yes && !user_agrees())
    throw bad_input("--faults: not agreed to on a terminal, nor by --yes; nothing was run");
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw failed("/proc/self/exe: {}", error.message());
  const Cancelable cancelable;
  report::ReportOptions options{.path = request.path,
                                .part = request.part,
                                .faults = request.faults,
                                .command = {program.string(), kPartCommand},
                                .seconds = request.seconds,
                                .stop = cancelable.flag()};
  options.progress = [](const std::string& part, const std::string& state, double seconds) {
    say(state.empty() ? fmt::format("{:<16}", part) : fmt::format("{:<8} {:6.1f} s\n", state, seconds));
  };
  const std::vector<report::ReportFile> files = report::make_report(options);
  size_t recorded = 0;
  std::string list;
  for (const report::ReportFile& file : files) {
    if (file.name.starts_with("machine/tree/")) {
      ++recorded;
    } else {
      list += fmt::format("  {:<32} {}\n", file.name, human_bytes(file.content.size()));
    }
  }
  print(
      fmt::format("{}, {}:\n{}  machine/tree                     {} files\n\nNothing was sent. gabbro doctor --show {} "
                  "prints every file.\n",
                  request.path, human_bytes(std::filesystem::file_size(request.path)), list, recorded, request.path));
  return cancelable.canceled() ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

int show_card_report(const std::string& path) {
  for (const report::ReportFile& file : report::read_archive(path)) {
    TextOutput output(TextOutput::Lines::kAsTheyAre);
    output.write(fmt::format("==> {} <==\n{}", file.name, file.content));
    output.end_line();
    output.finish();
  }
  return 0;
}

void add_report_part(Command root) {
  struct Options {
    std::string part, folder;
    int seconds = 0;
    report::PartOptions options;
  };
  Command command = root.subcommand(kPartCommand, "Run one part of doctor --report");
  command.hide();
  const auto o = std::make_shared<Options>();
  command.option("PART", o->part, "The part").required();
  command.option("--folder", o->folder, "Folder for its files").placeholder("FOLDER").required();
  command.number("--seconds", o->seconds, "Its limit").required();
  command.option("--device", o->options.device, "The device").placeholder("DEVICE");
  command.option("--model", o->options.model, "A model file").placeholder("FILE").file(FileUse::kInput);
  command.runs([o] {
    // Neither a core dump nor a process that outlives the report.
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    o->options.seconds = o->seconds;
    report::run_part(o->part, o->folder, o->options);
    // Destructors of a runtime that has failed are known to hang.
    std::_Exit(0);
    return 0;
  });
}

}  // namespace gabbro::cli
