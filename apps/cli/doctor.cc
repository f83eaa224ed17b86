// `doctor`: what is known to go wrong with GPUs, checked on this machine, each finding with its remedy.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/report_command.h"
#include "apps/cli/terminal.h"
#include "src/backend/doctor/doctor.h"
#include "src/backend/doctor/peer_matrix.h"
#include "src/backend/plugin.h"

namespace gabbro::cli {
namespace {

using doctor::Diagnosis;

struct DoctorOptions {
  CommonOptions common;
  bool self_test = false;
  bool peers = false;
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

nlohmann::ordered_json peers_document(const std::vector<doctor::PeerFinding>& findings) {
  nlohmann::ordered_json document = {{"peers", nlohmann::ordered_json::array()}};
  for (const doctor::PeerFinding& f : findings) {
    document["peers"].push_back({{"from", f.from},
                                 {"to", f.to},
                                 {"direct", f.direct},
                                 {"reason", f.reason},
                                 {"wrong_copies", f.wrong_copies},
                                 {"bytes_per_second", f.bytes_per_second},
                                 {"seconds", f.seconds},
                                 {"problem", f.problem}});
  }
  return document;
}

std::string peers_table(const std::vector<doctor::PeerFinding>& findings) {
  if (findings.empty()) return "there are no two devices of one backend\n";
  std::string out = fmt::format("{:<10} {:<10} {:<8} {:>10} {:>10}  {}\n", "from", "to", "route", "GB/s", "µs", "");
  for (const doctor::PeerFinding& f : findings) {
    if (!f.problem.empty()) {
      out += fmt::format("{:<10} {:<10} {}\n", f.from, f.to, printable(f.problem));
      continue;
    }
    const std::string wrong = f.wrong_copies > 0 ? fmt::format("{} copies are damaged; ", f.wrong_copies) : "";
    out += fmt::format("{:<10} {:<10} {:<8} {:>10.2f} {:>10.1f}  {}{}\n", f.from, f.to, f.direct ? "direct" : "staged",
                       f.bytes_per_second / 1e9, f.seconds * 1e6, wrong, printable(f.reason));
  }
  return out;
}

// Exit code 1: copies of the route that is taken are damaged, or a device failed.
int show_peers(bool json) {
  const std::vector<doctor::PeerFinding> findings = doctor::examine_peers();
  json ? print_json(peers_document(findings)) : print(peers_table(findings));
  const auto is_bad = [](const doctor::PeerFinding& f) { return f.wrong_copies > 0 || !f.problem.empty(); };
  return std::ranges::any_of(findings, is_bad) ? 1 : 0;
}

}  // namespace

void add_doctor(Command root) {
  Command command = root.subcommand("doctor", "Check GPUs, drivers and settings, and print the remedy for each fault");
  const auto o = std::make_shared<DoctorOptions>();
  command.flag("--self-test", o->self_test, "Also run the checks on the hardware, which take longer");
  command.flag("--peers", o->peers, "Test and time copies between all pairs of devices; later runs obey the verdicts");
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
  command.example("gabbro doctor --peers");
  command.example("gabbro doctor --report card.tar.zst");
  command.runs([o] {
    if (!o->show.empty()) return show_card_report(o->show);
    if (!o->report.path.empty()) return make_card_report(o->report);
    if (const std::string problem = plugin_path_problem(); !problem.empty()) report("warning", problem);
    if (o->peers) return show_peers(o->common.json);
    const auto diagnoses = doctor::examine(o->self_test);
    o->common.json ? print_document(diagnoses) : print_table(diagnoses);
    return 0;
  });
}

}  // namespace gabbro::cli
