// Checks that only the hardware can answer: each is asked of every usable device of every GPU backend that offers it
// (abi::Backend::run_check), by the id below. Without such a backend or device they are skipped, and say why.
#include <fmt/format.h>

#include <dlfcn.h>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/checks.h"
#include "src/base/child_process.h"
#include "src/base/processor_time.h"

namespace gabbro::doctor {
namespace {

struct Asked {
  int devices = 0;  // usable ones of a GPU
  int answers = 0;
  Finding worst{CheckStatus::kSkipped, {}, {}};
};

int severity(CheckStatus status) {
  switch (status) {
    case CheckStatus::kSkipped:
      return 0;
    case CheckStatus::kOk:
      return 1;
    case CheckStatus::kWarning:
      return 2;
    case CheckStatus::kError:
      break;
  }
  return 3;
}

void take(Asked& asked, Finding finding) {
  ++asked.answers;
  if (asked.answers == 1 || severity(finding.status) > severity(asked.worst.status)) asked.worst = std::move(finding);
}

void ask(const abi::Backend& backend, int32_t index, const char* id, Asked& asked) {
  abi::DeviceFacts facts{};
  if (backend.device_facts(index, &facts).code != abi::StatusCode::kOk || !facts.usable || facts.wave_size == 1) return;
  ++asked.devices;
  if (backend.run_check == nullptr) return;
  abi::CheckResult result;
  const abi::Status status = backend.run_check(index, id, &result);
  if (status.code == abi::StatusCode::kUnsupported) return;
  if (status.code != abi::StatusCode::kOk) {
    take(asked,
         error(fmt::format("{}: {}", facts.id, status.message), "gabbro doctor --self-test once more; report it"));
  } else {
    take(asked, {result.status, fmt::format("{}: {}", facts.id, result.summary), result.fix});
  }
}

Finding check_devices(const Examination& e, const char* id) {
  Asked asked;
  bool has_gpu_backend = false;
  for (const Plugin& plugin : e.plugins) {
    // Simulators (score < 0) are not hardware, and the CPU is not a GPU.
    if (plugin.backend == nullptr || plugin.backend->score < 0 || plugin.name == "cpu") continue;
    has_gpu_backend = true;
    if (!e.self_test) break;
    for (int32_t i = 0; i < plugin.backend->device_count(); ++i) ask(*plugin.backend, i, id, asked);
  }
  if (!has_gpu_backend) return skipped("no GPU backend is installed");
  if (!e.self_test) return skipped("runs on the hardware: gabbro doctor --self-test");
  if (asked.devices == 0) return skipped("no GPU is usable");
  if (asked.answers == 0) return skipped("no GPU backend offers this check");
  return asked.worst;
}

int32_t first_usable(const abi::Backend& backend) {
  for (int32_t i = 0; i < backend.device_count(); ++i) {
    abi::DeviceFacts facts{};
    if (backend.device_facts(i, &facts).code == abi::StatusCode::kOk && facts.usable) return i;
  }
  return -1;
}

constexpr std::chrono::seconds kMappedLimit{20};
constexpr std::chrono::seconds kSettling{2}, kWatching{3};
constexpr double kBusyCore = 0.3;
constexpr int kBusyPercent = 90;

}  // namespace

// The code object that a device runs: of its target, of a generic target, or compiled on first use.
Finding check_code_objects(const Examination& e) { return check_devices(e, "code-objects"); }
// Kernels that models need most, against the host.
Finding check_kernels(const Examination& e) { return check_devices(e, "kernels"); }
// Patterns copied to the card from each other one, and whether they go directly.
Finding check_peer_copies(const Examination& e) { return check_devices(e, "peer-copies"); }
// Copies from the host: pinned and pageable rates, and that of a mapped file, which model files are.
Finding check_host_copies(const Examination& e) {
  const Finding finding = check_devices(e, "host-copies");
  const std::string helper = find_beside_library("gabbro_probe");
  if (finding.status == CheckStatus::kSkipped || helper.empty()) return finding;
  for (const Plugin& plugin : e.plugins) {
    if (plugin.backend == nullptr || plugin.backend->score < 0 || plugin.name == "cpu") continue;
    const int32_t index = first_usable(*plugin.backend);
    Dl_info library = {};
    if (index < 0 || ::dladdr(reinterpret_cast<const void*>(plugin.backend), &library) == 0) continue;
    std::error_code error;
    const std::string folder = std::filesystem::temp_directory_path(error).string();
    const ChildResult child =
        run_child({helper, "copy", library.dli_fname, std::to_string(index), folder}, kMappedLimit);
    const discovery::Fields fields = discovery::parse_fields(child.output, '=');
    const std::string problem = discovery::text_field(fields, "error");
    return with_mapped_copy(finding, {.timed_out = child.timed_out,
                                      .bytes_per_second = static_cast<double>(discovery::number_field(fields, "rate")),
                                      .problem = problem.empty() ? child.ending : problem});
  }
  return finding;
}

Finding with_mapped_copy(Finding finding, const MappedCopy& copy) {
  constexpr double kSlow = 5e8;  // bytes/s: slower than a disk
  const char* const fix =
      "install a newer kernel: some pin the pages of mapped files one by one (Linux 7.0.0-28, gfx1151)";
  if (copy.timed_out) {
    return error(
        fmt::format("{}; from a mapped file of 256 MiB no end within {} s", finding.summary, kMappedLimit.count()),
        fix);
  }
  if (copy.bytes_per_second == 0) {
    finding.summary += fmt::format("; from a mapped file: {}", copy.problem);
    return finding;
  }
  finding.summary += fmt::format("; from a mapped file {:.1f} GB/s", copy.bytes_per_second / 1e9);
  if (copy.bytes_per_second < kSlow && finding.status == CheckStatus::kOk) return warning(finding.summary, fix);
  return finding;
}

Finding judge_idle(const std::string& device, const IdleFacts& facts) {
  std::string summary = fmt::format("{}: five seconds after work the process uses {:.0f} % of a core", device,
                                    100 * facts.processor_share);
  if (facts.busy_percent) summary += fmt::format(", the card is {} % busy", *facts.busy_percent);
  if (facts.watts) summary += fmt::format(" at {:.0f} W", *facts.watts);
  if (facts.processor_share > kBusyCore || facts.busy_percent.value_or(0) >= kBusyPercent) {
    return warning(summary,
                   "export GPU_MAX_HW_QUEUES=1 before a program starts, and end programs that are not used; "
                   "known of RDNA 3 and 4, and of ROCm 7.14");
  }
  return ok(summary);
}

Finding check_idle_after_work(const Examination& e) {
  const Finding worked = check_devices(e, "allocator");
  if (worked.status == CheckStatus::kSkipped) return worked;
  std::this_thread::sleep_for(kSettling);
  const double before = processor_seconds();
  std::this_thread::sleep_for(kWatching);
  IdleFacts facts{.processor_share = (processor_seconds() - before) / std::chrono::duration<double>(kWatching).count()};
  // The kernel's figures of this moment.
  const discovery::Machine now = discovery::read_machine(e.machine.root, e.machine.environment);
  for (const discovery::Card& card : now.cards) {
    if (!card.amd()) continue;
    facts.watts = card.pci.watts;
    facts.busy_percent = card.pci.busy_percent;
    return judge_idle(label(card), facts);
  }
  return judge_idle("the device", facts);
}
// Graphs of launches against single launches.
Finding check_graphs(const Examination& e) { return check_devices(e, "graphs"); }
// Memory returns to where it was after cycles of allocation.
Finding check_allocator(const Examination& e) { return check_devices(e, "allocator"); }
// Read bandwidth, as a share of what the card should reach.
Finding check_bandwidth(const Examination& e) { return check_devices(e, "bandwidth"); }
// Libraries of matrix products that a device uses.
Finding check_products(const Examination& e) { return check_devices(e, "products"); }

}  // namespace gabbro::doctor
