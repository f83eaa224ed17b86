#include "src/backend/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/backend/registry.h"
#include "src/base/set_text.h"

namespace gabbro {
namespace {

using namespace discovery;

RuntimeKind kind_of(const Card& card) { return card.amd() ? RuntimeKind::kHip : RuntimeKind::kCuda; }

std::string driver_text(const Machine& machine, const Card& card) {
  const KernelFacts& kernel = machine.kernel;
  if (card.pci.driver == "amdgpu") {
    return kernel.amdgpu_version.empty() ? fmt::format("amdgpu of Linux {}", kernel.release)
                                         : fmt::format("amdgpu {}", kernel.amdgpu_version);
  }
  if (card.pci.driver == "nvidia" && !kernel.nvidia_version.empty()) return "nvidia " + kernel.nvidia_version;
  return card.pci.driver;
}

abi::DeviceFacts facts_of(const Machine& machine, const Card& card) {
  abi::DeviceFacts facts{};
  const MemoryBudget memory = card_memory(card, machine.memory);
  set_text(facts.name, card.pci.name);
  set_text(facts.id, card.id());
  set_text(facts.architecture, card.architecture());
  set_text(facts.driver, driver_text(machine, card));
  set_text(facts.pci_address, card.pci.address);
  facts.memory_total = memory.total;
  facts.memory_free = memory.free;
  facts.compute_units = card.kfd ? card.kfd->compute_units : 0;
  facts.wave_size = card.kfd ? card.kfd->wave_size : 0;
  facts.integrated = card.integrated;
  return facts;
}

// A card whose backend lists devices is one of them, unless their addresses say otherwise.
bool listed(const Card& card, const std::vector<SurveyedDevice>& devices) {
  return std::ranges::any_of(devices, [&](const SurveyedDevice& device) {
    if (device.backend != card.backend() || std::strchr(device.facts.id, ':') == nullptr) return false;
    return device.facts.pci_address[0] == '\0' || card.pci.address == device.facts.pci_address;
  });
}

Verdict judge_backend(const Card& card, const std::vector<Plugin>& plugins) {
  const auto plugin = std::ranges::find(plugins, card.backend(), &Plugin::name);
  if (plugin == plugins.end()) {
    return {ChainLink::kBackend,
            fmt::format("no {} backend is installed (libgabbro_{}.so)", card.amd() ? "ROCm" : "CUDA", card.backend()),
            fmt::format("install libgabbro_{}.so next to the program, or set GABBRO_PLUGIN_PATH to its folder",
                        card.backend())};
  }
  return {};
}

// Verdict of the plugin itself, if everything below it seems to be in order.
Verdict judge_plugin(const Card& card, const std::vector<Plugin>& plugins) {
  const auto plugin = std::ranges::find(plugins, card.backend(), &Plugin::name);
  if (plugin->backend == nullptr) return {ChainLink::kBackend, plugin->reason, "reinstall Gabbro"};
  return {ChainLink::kDevice, fmt::format("the {} backend does not list it", card.backend()), "gabbro doctor"};
}

}  // namespace

const RuntimeReport& Runtimes::report(RuntimeKind kind) {
  auto found = reports_.find(kind);
  if (found == reports_.end()) found = reports_.emplace(kind, probe_runtime(root_, kind)).first;
  return found->second;
}

Verdict judge_card_quickly(const Machine& machine, const Card& card, const std::vector<Plugin>& plugins) {
  const Verdict verdict = judge_kernel(machine, card);
  return verdict.holds() ? judge_backend(card, plugins) : verdict;
}

Verdict judge_card(const Machine& machine, const Card& card, const std::vector<Plugin>& plugins, Runtimes& runtimes) {
  Verdict verdict = judge_card_quickly(machine, card, plugins);
  if (verdict.holds()) verdict = judge_runtime(machine, card, runtimes.report(kind_of(card)));
  return verdict.holds() ? judge_plugin(card, plugins) : verdict;
}

void correct_memory(abi::DeviceFacts& facts, const Machine& machine) {
  const auto found = std::ranges::find_if(
      machine.cards, [&](const Card& known) { return known.pci.address == facts.pci_address && known.amd(); });
  if (found == machine.cards.end()) return;
  Card card = *found;
  card.integrated = card.integrated || facts.integrated;  // targets that are not in our list yet
  const MemoryBudget memory = card_memory(card, machine.memory, facts.memory_total);
  if (memory.total == 0) return;
  if (card.integrated) {  // the runtime's free memory is that of one of the pools
    facts.memory_total = memory.total;
    facts.memory_free = memory.free;
  } else if (card.pci.vram.total > 0) {
    facts.memory_free = std::min(facts.memory_free, memory.free);
  }
}

std::vector<SurveyedDevice> survey_devices() {
  const std::vector<Plugin> plugins = load_plugins();
  std::vector<SurveyedDevice> devices;
  for (const abi::DeviceFacts& facts : list_devices()) {
    const std::string id = facts.id;
    SurveyedDevice device{.facts = facts, .backend = id.substr(0, id.find(':')), .reason = facts.reason};
    const auto plugin = std::ranges::find(plugins, device.backend, &Plugin::name);
    device.for_tests = plugin != plugins.end() && plugin->backend != nullptr && plugin->backend->score < 0;
    devices.push_back(std::move(device));
  }
  const Machine machine = read_machine();
  Runtimes runtimes(machine.root);
  std::vector<SurveyedDevice> unused;
  for (const Card& card : machine.cards) {
    if (listed(card, devices)) continue;
    SurveyedDevice device{.facts = facts_of(machine, card), .backend = card.backend()};
    const Verdict verdict = judge_card(machine, card, plugins, runtimes);
    device.reason = verdict.reason;
    device.fix = verdict.fix;
    set_text(device.facts.reason, verdict.reason);
    if (verdict.broken > ChainLink::kBackend) {
      const RuntimeReport& report = runtimes.report(kind_of(card));
      if (!report.version.empty()) {
        set_text(device.facts.runtime, (card.amd() ? "HIP " : "CUDA ") + report.version);
      }
    }
    unused.push_back(std::move(device));
  }
  devices.insert(devices.end(), unused.begin(), unused.end());
  return devices;
}

}  // namespace gabbro
