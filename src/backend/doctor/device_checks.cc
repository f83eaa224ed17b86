// Checks that only the hardware can answer: each is asked of every usable device of every GPU backend that offers it
// (abi::Backend::run_check), by the id below. Without such a backend or device they are skipped, and say why.
#include <fmt/format.h>

#include <cstring>

#include "src/backend/doctor/checks.h"

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
    // Simulators (score < 0) are no hardware, and the CPU is no GPU.
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

}  // namespace

// The code object that a device runs: of its target, of a generic target, or compiled on first use.
Finding check_code_objects(const Examination& e) { return check_devices(e, "code-objects"); }
// Kernels that models need most, against the host.
Finding check_kernels(const Examination& e) { return check_devices(e, "kernels"); }
// Patterns copied to the card from each other one, and whether they go directly.
Finding check_peer_copies(const Examination& e) { return check_devices(e, "peer-copies"); }
// Copies from the host: pinned and pageable rates, none from file-backed pages.
Finding check_host_copies(const Examination& e) { return check_devices(e, "host-copies"); }
// Memory returns to where it was after cycles of allocation.
Finding check_allocator(const Examination& e) { return check_devices(e, "allocator"); }
// Read bandwidth, as a share of what the card should reach.
Finding check_bandwidth(const Examination& e) { return check_devices(e, "bandwidth"); }
// Libraries of matrix products that a device uses.
Finding check_products(const Examination& e) { return check_devices(e, "products"); }

}  // namespace gabbro::doctor
