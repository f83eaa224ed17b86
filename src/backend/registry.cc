#include "src/backend/registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/backend/discovery/machine.h"
#include "src/backend/missing_device.h"
#include "src/backend/plugin.h"
#include "src/backend/ranking.h"
#include "src/backend/survey.h"
#include "src/base/error.h"
#include "src/base/set_text.h"

namespace gabbro {
namespace {

struct Candidate {
  Plugin plugin;
  int index = 0;
  abi::DeviceFacts facts{};
};

// Memory as the kernel counts it, for devices that say where they are.
void refine(std::vector<Candidate>& found) {
  if (std::ranges::none_of(found, [](const Candidate& candidate) { return candidate.facts.pci_address[0] != '\0'; })) {
    return;
  }
  const discovery::Machine machine = discovery::read_machine();
  for (Candidate& candidate : found) correct_memory(candidate.facts, machine);
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> found;
  for (const Plugin& plugin : load_plugins()) {
    const int devices = plugin.backend != nullptr ? plugin.backend->device_count() : 0;
    for (int index = 0; index < devices; ++index) {
      Candidate candidate{.plugin = plugin, .index = index};
      const abi::Status status = plugin.backend->device_facts(index, &candidate.facts);
      if (status.code != abi::StatusCode::kOk) {
        candidate.facts.usable = false;
        set_text(candidate.facts.reason, status.message);
      }
      found.push_back(std::move(candidate));
    }
    if (plugin.backend == nullptr) {
      Candidate candidate{.plugin = plugin};
      set_text(candidate.facts.id, plugin.name);
      set_text(candidate.facts.name, plugin.name + " backend");
      set_text(candidate.facts.reason, plugin.reason);
      found.push_back(std::move(candidate));
    }
  }
  refine(found);
  std::ranges::stable_sort(found, {}, [](const Candidate& candidate) {
    return rank_of(candidate.facts, candidate.plugin.backend != nullptr ? candidate.plugin.backend->score : 0);
  });
  return found;
}

// "hip:1" is "rocm:1", "pci:03:00.0" is "pci:0000:03:00.0".
std::string canonical(const std::string& name) {
  if (name == "hip" || name.starts_with("hip:")) return "rocm" + name.substr(3);
  if (!name.starts_with("pci:")) return name;
  const std::string address = discovery::normalized_pci_address(name.substr(4));
  if (address.empty()) {
    throw Error(ErrorCode::kBadInput, fmt::format("--device: '{}' is not of the form pci:0000:03:00.0", name));
  }
  return "pci:" + address;
}

bool taken_by_default(const Candidate& candidate) {
  return candidate.plugin.backend != nullptr && candidate.plugin.backend->score >= 0 && candidate.facts.usable;
}

bool names(const std::string& name, const Candidate& candidate) {
  const abi::DeviceFacts& facts = candidate.facts;
  if (name == "auto") return taken_by_default(candidate);
  if (name == "gpu") return taken_by_default(candidate) && facts.wave_size != 1;
  if (name.starts_with("pci:")) return name.substr(4) == facts.pci_address;
  return name == facts.id || name == candidate.plugin.name || name == facts.architecture;
}

// `unusable`: the first of the requested devices if none can be used; null: there are none.
Error missing(const std::string& name, const std::string& wanted, const std::vector<Candidate>& found,
              const Candidate* unusable) {
  if (const std::string problem = plugin_path_problem(); !problem.empty()) {
    return Error(ErrorCode::kNoDevice, problem,
                 "it is the folder of the backend plugins; without it Gabbro looks next to the program");
  }
  const bool known_device = unusable != nullptr && unusable->plugin.backend != nullptr;
  const bool has_kind = std::ranges::any_of(found, [&](const Candidate& candidate) {
    return candidate.plugin.backend != nullptr && wanted.starts_with(candidate.plugin.backend->name);
  });
  if (!known_device && !has_kind) {
    if (auto error = explain_missing_gpu(wanted, load_plugins())) return *error;
  }
  if (unusable != nullptr) {
    return Error(ErrorCode::kNoDevice,
                 fmt::format("device {} is not usable: {}", unusable->facts.id, unusable->facts.reason));
  }
  if (found.empty()) {
    return Error(ErrorCode::kNoDevice, "no backend was found: there is no libgabbro_*.so next to the program",
                 "reinstall Gabbro, or set GABBRO_PLUGIN_PATH to the folder of its plugins");
  }
  std::string known;
  for (const Candidate& candidate : found) known += (known.empty() ? "" : ", ") + std::string(candidate.facts.id);
  return Error(ErrorCode::kNoDevice, fmt::format("there is no device '{}'", name), "this machine has: " + known);
}

std::shared_ptr<Device> open(const Candidate& candidate, const abi::DeviceOptions& options) {
  return std::make_shared<Device>(candidate.plugin.backend, candidate.index, options, candidate.plugin.library);
}

}  // namespace

std::vector<abi::DeviceFacts> list_devices() {
  std::vector<abi::DeviceFacts> facts;
  for (const Candidate& candidate : candidates()) facts.push_back(candidate.facts);
  return facts;
}

std::shared_ptr<Device> open_device(const std::string& requested, const abi::DeviceOptions& options) {
  std::string name = requested.empty() ? "auto" : requested;
  if (const char* forced = std::getenv("GABBRO_DEVICE"); name == "auto" && forced != nullptr && *forced != '\0')
    name = forced;
  if (name == "null") return std::make_shared<Device>(null_backend(), 0, options, nullptr);
  const std::string wanted = canonical(name);
  const std::vector<Candidate> found = candidates();
  const Candidate* unusable = nullptr;
  for (const Candidate& candidate : found) {
    if (!names(wanted, candidate)) continue;
    if (candidate.facts.usable) return open(candidate, options);
    if (unusable == nullptr) unusable = &candidate;
  }
  throw missing(name, wanted, found, unusable);
}

}  // namespace gabbro
