// The HIP runtime and the CUDA driver library: there, answering, and fitting the kernel's driver.
#include <fmt/format.h>

#include <array>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

// ROCm releases and the amdgpu-dkms that came with them (AMD's release notes). Runtime and driver may be a year apart.
struct Release {
  int hip_major;
  int oldest_driver_minor;  // of amdgpu 6.x
};
constexpr std::array<Release, 2> kOldestDrivers = {{{7, 8}, {6, 2}}};

int leading_number(const std::string& text, size_t part) {
  const auto parts = split(text, ".-");
  return part < parts.size() ? static_cast<int>(parse_number(parts[part]).value_or(0) & 0xffff) : 0;
}

Finding check_runtime(const Examination& e, Vendor vendor, RuntimeKind kind) {
  const bool hidden = kind == RuntimeKind::kHip && e.machine.kernel.wsl && e.machine.root.exists("/dev/dxg");
  const bool needed = e.machine.has(vendor) || hidden;
  const RuntimeReport& report = e.runtimes.report(kind);
  if (!needed && report.state != RuntimeState::kOk) {
    return skipped(fmt::format("there is no {} GPU", vendor == Vendor::kAmd ? "AMD" : "NVIDIA"));
  }
  if (report.state == RuntimeState::kNotProbed) {
    return skipped(report.message.empty() ? "the recording does not say what the runtime answers" : report.message);
  }
  if (report.state != RuntimeState::kOk && !e.machine.has(vendor)) {
    return error(report.message, "install AMD's ROCm for WSL and the Adrenalin driver that its notes name");
  }
  if (report.state != RuntimeState::kOk) {
    const Verdict verdict = judge_runtime(e.machine, *e.machine.cards_of(vendor).front(), report);
    return error(verdict.reason, verdict.fix);
  }
  const std::string found = fmt::format("{} {} sees {} GPU{}", report.path, report.version, report.devices.size(),
                                        report.devices.size() == 1 ? "" : "s");
  for (const Card* card : e.machine.cards_of(vendor)) {
    const Verdict verdict = judge_runtime(e.machine, *card, report);
    if (judge_kernel(e.machine, *card).holds() && !verdict.holds()) {
      return warning(fmt::format("{}, but not {}: {}", found, label(*card), verdict.reason), verdict.fix);
    }
  }
  return ok(found);
}

}  // namespace

Finding check_hip_runtime(const Examination& e) { return check_runtime(e, Vendor::kAmd, RuntimeKind::kHip); }

Finding check_cuda_runtime(const Examination& e) { return check_runtime(e, Vendor::kNvidia, RuntimeKind::kCuda); }

Finding check_runtime_kernel_pair(const Examination& e) {
  if (driven_amd_cards(e).empty()) return skipped(kNoAmdCard);
  const RuntimeReport& report = e.runtimes.report(RuntimeKind::kHip);
  const KernelFacts& kernel = e.machine.kernel;
  const std::string driver =
      kernel.amdgpu_version.empty() ? "amdgpu of Linux " + kernel.release : "amdgpu " + kernel.amdgpu_version;
  if (report.state == RuntimeState::kHung) {
    return error(fmt::format("{} over {}", report.message, driver),
                 "install driver and runtime of one ROCm release (sudo apt install amdgpu-dkms), or a newer kernel");
  }
  if (report.version.empty()) return skipped("no HIP runtime answered");
  const int hip = leading_number(report.version, 0);
  for (const Release& release : kOldestDrivers) {
    if (hip != release.hip_major || kernel.amdgpu_version.empty()) continue;
    const int major = leading_number(kernel.amdgpu_version, 0), minor = leading_number(kernel.amdgpu_version, 1);
    if (major > 6 || (major == 6 && minor >= release.oldest_driver_minor)) continue;
    return warning(fmt::format("HIP {} over {}: older than 6.{}, and may hang", report.version, driver,
                               release.oldest_driver_minor),
                   "sudo apt install amdgpu-dkms of the same ROCm release, then reboot");
  }
  if (kernel.amdgpu_version.empty() && hip >= 6 && !kernel.at_least(5, 15)) {
    return warning(
        fmt::format("HIP {} over {}: ROCm 6 and later are made for Linux 5.15 and newer", report.version, driver),
        "install a newer kernel of the distribution, then reboot");
  }
  return ok(fmt::format("HIP {} over {}", report.version, driver));
}

}  // namespace gabbro::doctor
