// `devices`: what there is to run on, and why what is not usable is not.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/backend/plugin.h"
#include "src/backend/survey.h"

namespace gabbro::cli {
namespace {

void print_document(const std::vector<SurveyedDevice>& devices) {
  nlohmann::ordered_json document = {{"devices", nlohmann::ordered_json::array()}};
  for (const SurveyedDevice& device : devices) {
    const abi::DeviceFacts& facts = device.facts;
    document["devices"].push_back({{"name", facts.name},
                                   {"id", facts.id},
                                   {"backend", device.backend},
                                   {"architecture", facts.architecture},
                                   {"memory_total", facts.memory_total},
                                   {"memory_free", facts.memory_free},
                                   {"compute_units", facts.compute_units},
                                   {"wave_size", facts.wave_size},
                                   {"driver", facts.driver},
                                   {"runtime", facts.runtime},
                                   {"kernels", facts.kernels},
                                   {"usable", facts.usable},
                                   {"reason", device.reason},
                                   {"fix", device.fix},
                                   {"integrated", facts.integrated},
                                   {"pci_address", facts.pci_address}});
  }
  print_json(document);
}

void print_table(const std::vector<SurveyedDevice>& devices) {
  std::string out;
  for (const SurveyedDevice& device : devices) {
    const abi::DeviceFacts& facts = device.facts;
    out += fmt::format("{:<10} {}", facts.id, printable(facts.name));
    if (facts.architecture[0] != '\0') {
      out += fmt::format(" ({}{}{})", printable(facts.architecture), facts.kernels[0] != '\0' ? ", " : "",
                         printable(facts.kernels));
    }
    if (facts.compute_units > 0) {
      out += fmt::format("  {} {}, {} of {} free", facts.compute_units,
                         device.backend == "cpu" ? "cores" : "compute units", human_bytes(facts.memory_free),
                         human_bytes(facts.memory_total));
    }
    out += "\n";
    if (!facts.usable) out += fmt::format("{:<10} not usable: {}\n", "", printable(device.reason));
    if (!device.fix.empty()) out += fmt::format("{:<10} fix: {}\n", "", printable(device.fix));
  }
  print(out);
}

}  // namespace

void add_devices(Command root) {
  Command command =
      root.subcommand("devices", "List the devices that models can run on, and what keeps others from it");
  const auto common = std::make_shared<CommonOptions>();
  add_output_options(command, *common);
  command.example("gabbro devices --json");
  command.runs([common] {
    if (const std::string problem = plugin_path_problem(); !problem.empty()) report("warning", problem);
    const auto devices = survey_devices();
    common->json ? print_document(devices) : print_table(devices);
    return 0;
  });
}

}  // namespace gabbro::cli
