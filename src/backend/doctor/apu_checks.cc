// Strix and its relatives (gfx115x), which need a newer kernel, runtime and firmware than other cards.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

constexpr uint64_t kBadMesFirmware = 0x83;  // hangs: ROCm issue 5724

// "7.2.53211" as {7, 2}.
std::pair<uint64_t, uint64_t> major_minor(const std::string& version) {
  const auto parts = split(version, ".");
  const auto number = [&](size_t i) { return i < parts.size() ? parse_number(parts[i]).value_or(0) : 0; };
  return {number(0), number(1)};
}

// Whether waves are saved when the GPU changes between programs, which is the default.
bool saves_waves(const Machine& machine) {
  if (machine.kernel.command_line.find("amdgpu.cwsr_enable=0") != std::string::npos) return false;
  return machine.root.read_number("/sys/module/amdgpu/parameters/cwsr_enable").value_or(1) != 0;
}

std::optional<uint64_t> mes_firmware(const Machine& machine, const Card& card) {
  const std::string folder = "/sys/bus/pci/devices/" + card.pci.address + "/fw_version";
  const auto version = machine.root.read_number(folder + "/mes_fw_version");
  return version ? std::optional(*version & 0xfff) : std::nullopt;
}

}  // namespace

Finding check_apu_pair(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  const auto found = std::ranges::find_if(cards, [](const Card* c) { return c->architecture().starts_with("gfx115"); });
  if (found == cards.end()) return skipped("there is no APU of the gfx115x kind");
  const Card& card = **found;
  const auto firmware = mes_firmware(e.machine, card);
  if (firmware == kBadMesFirmware) {
    return error(
        fmt::format("{}: MES firmware 0x{:x} hangs", label(card), *firmware),
        "install a newer linux-firmware (amdgpu/gc_11_5_*_mes*), then sudo update-initramfs -u && sudo reboot");
  }
  const KernelFacts& kernel = e.machine.kernel;
  const std::string& hip = e.runtimes.report(RuntimeKind::kHip).version;
  const std::string pair = fmt::format("{} with {} and Linux {}", label(card),
                                       hip.empty() ? "no HIP that answers" : "HIP " + hip, kernel.release);
  if (!saves_waves(e.machine)) return ok(pair + "; waves are not saved (amdgpu.cwsr_enable=0)");
  const bool old_hip = !hip.empty() && major_minor(hip) < std::pair<uint64_t, uint64_t>(7, 2);
  // AMD's driver package has its own patches.
  const bool old_kernel = kernel.amdgpu_version.empty() && !kernel.at_least(6, 18);
  if (!old_hip && !old_kernel) return ok(pair);
  return error(
      fmt::format("{}: programs crash or hang where waves are saved with the wrong number of registers; {}", pair,
                  old_hip && old_kernel ? "HIP 7.2 and Linux 6.18 are needed"
                  : old_hip             ? "HIP 7.2 is needed"
                                        : "Linux 6.18 is needed"),
      "add amdgpu.cwsr_enable=0 to GRUB_CMDLINE_LINUX in /etc/default/grub, then sudo update-grub && sudo "
      "reboot; or install Linux 6.18 and ROCm 7.2 or newer");
}

}  // namespace gabbro::doctor
