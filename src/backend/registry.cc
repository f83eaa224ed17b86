#include "src/backend/registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/backend/plugin.h"
#include "src/base/error.h"

namespace gabbro {
namespace {

struct Candidate {
  Plugin plugin;
  int index = 0;
  abi::DeviceFacts facts{};
};

template <size_t N>
void set_text(char (&target)[N], const std::string& text) {
  std::strncpy(target, text.c_str(), N - 1);
  target[N - 1] = '\0';
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
  // A discrete GPU before an integrated one, as their backends' scores rank them; the CPU's score is the lowest.
  std::ranges::stable_sort(found, [](const Candidate& a, const Candidate& b) {
    return a.facts.usable && !a.facts.integrated && !(b.facts.usable && !b.facts.integrated);
  });
  return found;
}

bool names(const std::string& name, const Candidate& candidate) {
  return name == candidate.facts.id || name == candidate.plugin.name || name == candidate.facts.architecture;
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
  const std::string wanted = name == "hip" || name.starts_with("hip:") ? "rocm" + name.substr(3) : name;
  const std::vector<Candidate> found = candidates();
  std::string known;
  for (const Candidate& candidate : found) {
    const bool by_default =
        wanted == "auto" && candidate.plugin.backend != nullptr && candidate.plugin.backend->score >= 0;
    if ((by_default && candidate.facts.usable) || names(wanted, candidate)) {
      if (!candidate.facts.usable) {
        throw Error(ErrorCode::kNoDevice,
                    fmt::format("device {} is not usable: {}", candidate.facts.id, candidate.facts.reason));
      }
      return open(candidate, options);
    }
    known += (known.empty() ? "" : ", ") + std::string(candidate.facts.id);
  }
  if (found.empty()) {
    throw Error(ErrorCode::kNoDevice, "no backend was found: there is no libgabbro_*.so beside the program",
                "reinstall Gabbro, or set GABBRO_PLUGIN_PATH to the folder of its plugins");
  }
  throw Error(ErrorCode::kNoDevice, fmt::format("there is no device '{}'", name), "this machine has: " + known);
}

}  // namespace gabbro
