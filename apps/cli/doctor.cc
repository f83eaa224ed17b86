// `doctor`: what is known to go wrong with GPUs, checked on this machine, each finding with its remedy.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/report_command.h"
#include "apps/cli/terminal.h"
#include "src/backend/doctor/doctor.h"
#include "src/backend/plugin.h"

namespace gabbro::cli {
namespace {

using doctor::Diagnosis;

struct DoctorOptions {
  CommonOptions common;
  bool self_test = false;
  ReportRequest report;
  std::string show;
};

void print_document(const std::vector<Diagnosis>& diagnoses) {
  nlohmann::ordered_json document = {{"checks", nlohmann::ordered_json::array()}};
  for (const auto& [id, finding] : diagnoses) {
    document["checks"].push_back({{"id", id},
                                  {"status", doctor::status_name(finding.status)},
                                  {"summary", finding.summary},
                                  {"fix", finding.fix}});
  }
  print_json(document);
}

void print_table(const std::vector<Diagnosis>& diagnoses) {
  std::string out;
  int errors = 0, warnings = 0;
  for (const auto& [id, finding] : diagnoses) {
    out += fmt::format("{:<8} {:<24} {}\n", doctor::status_name(finding.status), id, printable(finding.summary));
    if (!finding.fix.empty()) out += fmt::format("{:<8} fix: {}\n", "", printable(finding.fix));
    errors += finding.status == doctor::CheckStatus::kError;
    warnings += finding.status == doctor::CheckStatus::kWarning;
  }
  print(out + fmt::format("\n{} errors, {} warnings\n", errors, warnings));
}

}  // namespace

void add_doctor(Command root) {
  Command command = root.subcommand("doctor", "Check GPUs, drivers and settings, and print the remedy for each fault");
  const auto o = std::make_shared<DoctorOptions>();
  command.flag("--self-test", o->self_test, "Also run the checks on the hardware, which take longer");
  Option made = command
                    .option("--report", o->report.path,
                            "Run all checks and measurements in child processes, at most ten minutes, and write what "
                            "they find to an archive. Nothing is sent")
                    .placeholder("FILE.tar.zst")
                    .file(FileUse::kOutput);
  command.option("--device", o->report.part.device, "The device of the report: rocm:1; default: the best GPU")
      .placeholder("DEVICE")
      .needs(made);
  command
      .option("--model", o->report.part.model,
              "A GGUF file that the report also runs; only its size, hashes and times are in it")
      .placeholder("FILE")
      .file(FileUse::kInput)
      .needs(made);
  command.number("--limit", o->report.seconds, "Seconds that the report may take")
      .placeholder("SECONDS")
      .range(30, 3600)
      .needs(made);
  Option faults = command
                      .flag("--faults", o->report.faults,
                            "The report also provokes a fault of the GPU, after asking: the display may freeze")
                      .needs(made);
  command.flag("--yes", o->report.yes, "Do not ask about --faults").needs(faults);
  command.option("--show", o->show, "Print every file of such an archive")
      .placeholder("FILE.tar.zst")
      .file(FileUse::kInput)
      .excludes(made);
  add_output_options(command, o->common);
  command.example("gabbro doctor --self-test");
  command.example("gabbro doctor --report card.tar.zst");
  command.runs([o] {
    if (!o->show.empty()) return show_card_report(o->show);
    if (!o->report.path.empty()) return make_card_report(o->report);
    if (const std::string problem = plugin_path_problem(); !problem.empty()) report("warning", problem);
    const auto diagnoses = doctor::examine(o->self_test);
    o->common.json ? print_document(diagnoses) : print_table(diagnoses);
    return 0;
  });
}

}  // namespace gabbro::cli
