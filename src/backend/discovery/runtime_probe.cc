#include "src/backend/discovery/runtime_probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/pci.h"
#include "src/backend/discovery/recorded_facts.h"
#include "src/backend/plugin.h"
#include "src/base/child_process.h"
#include "src/base/hip/settings.h"

namespace gabbro::discovery {
namespace {

void set_devices(RuntimeReport& report, const std::string& list) {
  for (const std::string& device : split(list, ",")) {
    const std::string address = normalized_pci_address(device);
    report.devices.push_back(address.empty() ? device : address);
  }
}

RuntimeReport recorded_report(const Fields& fields) {
  RuntimeReport report;
  const std::string state = text_field(fields, "status");
  report.state = state == "ok"        ? RuntimeState::kOk
                 : state == "missing" ? RuntimeState::kMissing
                 : state == "failed"  ? RuntimeState::kFailed
                 : state == "hung"    ? RuntimeState::kHung
                 : state == "crashed" ? RuntimeState::kCrashed
                                      : RuntimeState::kNotProbed;
  report.path = text_field(fields, "path");
  report.version = text_field(fields, "version");
  report.message = text_field(fields, "message");
  set_devices(report, text_field(fields, "devices"));
  return report;
}

// The helper's lines "key=value"; whatever else a runtime printed is kept for the message of a crash.
RuntimeReport understood(const ChildResult& child, RuntimeKind kind, std::chrono::milliseconds limit) {
  RuntimeReport report;
  const Fields fields = parse_fields(child.output, '=');
  report.path = text_field(fields, "path");
  report.version = text_field(fields, "version");
  report.message = text_field(fields, "error");
  set_devices(report, text_field(fields, "devices"));
  const std::string state = text_field(fields, "state");
  const std::string where = report.path.empty() ? runtime_name(kind) : report.path;
  if (!state.empty()) {  // also where what the runtime started lives on
    report.state = state == "ok"        ? RuntimeState::kOk
                   : state == "missing" ? RuntimeState::kMissing
                                        : RuntimeState::kFailed;
  } else if (child.timed_out) {
    report.state = RuntimeState::kHung;
    report.message = fmt::format("{} gave no answer within {} s", where, limit.count() / 1000.0);
  } else {
    report.state = RuntimeState::kCrashed;
    const auto lines = split(child.output, "\n");
    report.message = fmt::format("{} ended the process that asked it ({}){}", where, child.ending,
                                 lines.empty() ? "" : ", and said last: " + lines.back().substr(0, 160));
  }
  return report;
}

// The helper's command line. It is another process: what this one has loaded is passed on.
std::vector<std::string> helper_command(const std::string& helper, RuntimeKind kind) {
  std::vector<std::string> command = {helper, runtime_key(kind)};
  if (kind != RuntimeKind::kHip) return command;
  const auto settings = hip_search::Settings::of_process();
  if (!settings.loaded.empty()) command.insert(command.end(), {"--loaded", settings.loaded});
  for (const std::string& folder : settings.packages) command.insert(command.end(), {"--packages", folder});
  return command;
}

bool is_tool_chain_of_tests() { return !hip_search::Settings::of_process().root.empty(); }

}  // namespace

bool RuntimeReport::sees(const std::string& pci_address) const {
  return std::ranges::find(devices, pci_address) != devices.end();
}

std::string runtime_key(RuntimeKind kind) { return kind == RuntimeKind::kHip ? "hip" : "cuda"; }

std::string runtime_name(RuntimeKind kind) {
  return kind == RuntimeKind::kHip ? "HIP runtime (libamdhip64.so)" : "CUDA driver library (libcuda.so.1)";
}

RuntimeReport probe_runtime(const SystemRoot& root, RuntimeKind kind, std::chrono::milliseconds limit) {
  if (root.recorded()) {
    const auto recorded = recorded_runtime(root, runtime_key(kind));
    if (recorded) return recorded_report(*recorded);
    // A recorded machine whose libraries are a tree too.
    if (!is_tool_chain_of_tests()) return {};
  }
  const std::string helper = find_beside_library("gabbro_probe");
  if (helper.empty()) {
    RuntimeReport report;
    report.message = "the helper program gabbro_probe is not installed next to the library";
    return report;
  }
  const ChildResult child = run_child(helper_command(helper, kind), limit);
  if (!child.started) {
    RuntimeReport report;
    report.message = fmt::format("cannot start {}: {}", helper, child.ending);
    return report;
  }
  return understood(child, kind, limit);
}

}  // namespace gabbro::discovery
