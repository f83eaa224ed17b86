// `devices`: what there is to run on, and why what is not usable is not.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/backend/registry.h"

namespace gabbro::cli {
namespace {

// "cuda" of "cuda:0"
std::string backend_of(const abi::DeviceFacts& facts) {
  const std::string id = facts.id;
  return id.substr(0, id.find(':'));
}

void print_document(const std::vector<abi::DeviceFacts>& devices) {
  nlohmann::ordered_json document = {{"devices", nlohmann::ordered_json::array()}};
  for (const abi::DeviceFacts& facts : devices) {
    document["devices"].push_back({{"name", facts.name},
                                   {"id", facts.id},
                                   {"backend", backend_of(facts)},
                                   {"architecture", facts.architecture},
                                   {"memory_total", facts.memory_total},
                                   {"memory_free", facts.memory_free},
                                   {"compute_units", facts.compute_units},
                                   {"wave_size", facts.wave_size},
                                   {"driver", facts.driver},
                                   {"runtime", facts.runtime},
                                   {"usable", facts.usable},
                                   {"reason", facts.reason}});
  }
  print_json(document);
}

void print_table(const std::vector<abi::DeviceFacts>& devices) {
  std::string out;
  for (const abi::DeviceFacts& facts : devices) {
    out += fmt::format("{:<10} {}", facts.id, printable(facts.name));
    if (facts.architecture[0] != '\0') out += fmt::format(" ({})", printable(facts.architecture));
    if (facts.usable) {
      out += fmt::format("  {} compute units, {} of {} free\n", facts.compute_units, human_bytes(facts.memory_free),
                         human_bytes(facts.memory_total));
    } else {
      out += fmt::format("  not usable: {}\n", printable(facts.reason));
    }
  }
  print(out);
}

}  // namespace

void add_devices(CLI::App& root, Actions& actions) {
  CLI::App* app = root.add_subcommand("devices", "List the devices that models can run on");
  const auto common = std::make_shared<CommonOptions>();
  add_output_options(*app, *common);
  actions[app] = [common] {
    const auto devices = list_devices();
    common->json ? print_document(devices) : print_table(devices);
    return 0;
  };
}

}  // namespace gabbro::cli
