// The GPU runtimes: what HIP says of itself and its devices (gabbro_probe facts), and the devices of all backends.
#include "src/backend/discovery/fields.h"
#include "src/backend/plugin.h"
#include "src/base/child_process.h"
#include "src/base/error.h"
#include "src/report/part.h"

#include "gabbro/backend/device.h"

namespace gabbro::report {

using nlohmann::ordered_json;

void record_runtime(const PartOptions& options, PartOutput& output) {
  const std::string helper = find_beside_library("gabbro_probe");
  if (helper.empty()) throw failed("the helper program gabbro_probe is not installed next to the library");
  const std::chrono::milliseconds limit(static_cast<int64_t>(900 * options.seconds));
  // Less than the part may take, so that what it printed before a hang is not lost.
  const ChildResult child = run_child({helper, "facts"}, limit);
  std::string rest;
  for (const std::string& line : discovery::split(child.output, "\n")) {
    const auto object = ordered_json::parse(line, nullptr, false);
    if (object.is_object()) {
      output.line(object);
    } else {
      rest += line + "\n";
    }
  }
  if (!rest.empty()) output.file("hip_messages.txt", rest);
  if (!child.succeeded)
    throw failed("gabbro_probe facts: {}",
                 child.timed_out ? fmt::format("no end within {} s", limit.count() / 1000) : child.ending);
}

void record_devices(const PartOptions&, PartOutput& output) {
  for (const abi::DeviceFacts& facts : list_devices()) {
    output.line({{"id", facts.id},
                 {"name", facts.name},
                 {"architecture", facts.architecture},
                 {"driver", facts.driver},
                 {"runtime", facts.runtime},
                 {"kernels", facts.kernels},
                 {"reason", facts.reason},
                 {"pci_address", facts.pci_address},
                 {"memory_total", facts.memory_total},
                 {"memory_free", facts.memory_free},
                 {"compute_units", facts.compute_units},
                 {"wave_size", facts.wave_size},
                 {"usable", facts.usable},
                 {"integrated", facts.integrated}});
  }
}

}  // namespace gabbro::report
