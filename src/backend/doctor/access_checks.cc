// Whether this process may open the devices, on the host and in a container.
#include <fmt/format.h>

#include "src/backend/discovery/permission.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {

using namespace discovery;

Finding check_permissions(const Examination& e) {
  if (e.machine.nodes.empty()) return skipped("there is no GPU, and so no device node");
  std::string opened;
  for (const Card& card : e.machine.cards) {
    if (card.pci.driver.empty()) continue;  // without a driver there are no nodes: that is another finding
    for (const std::string& path : nodes_of(card)) {
      const Verdict verdict = judge_node(e.machine, e.machine.nodes.at(path));
      if (!verdict.holds()) return error(verdict.reason, verdict.fix);
      if (opened.find(path) == std::string::npos) opened += (opened.empty() ? "" : ", ") + path;
    }
  }
  return opened.empty() ? skipped("no driver is loaded, and so there is no device node") : ok("may open " + opened);
}

Finding check_container(const Examination& e) {
  const ProcessFacts& process = e.machine.process;
  if (process.container.empty()) return skipped("this is not a container");
  const std::string kind = process.container + (process.rootless ? " (rootless)" : "");
  if (!e.machine.has(Vendor::kAmd)) return ok(fmt::format("container of {}; no AMD GPU", kind));
  for (const Card* card : e.machine.cards_of(Vendor::kAmd)) {
    for (const std::string& path : nodes_of(*card)) {
      const Verdict verdict = judge_node(e.machine, e.machine.nodes.at(path));
      if (!verdict.holds()) return error(fmt::format("container of {}: {}", kind, verdict.reason), verdict.fix);
    }
  }
  return ok(fmt::format("container of {}: the GPUs were passed to it", kind));
}

}  // namespace gabbro::doctor
