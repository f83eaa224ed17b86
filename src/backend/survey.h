// Everything there is to run on, and everything there would be: the devices of the backend plugins, and the cards that
// the kernel shows but no plugin can use, with the broken link and its remedy.
#pragma once

#include <string>
#include <vector>

#include "src/backend/discovery/machine.h"
#include "src/backend/discovery/runtime_probe.h"
#include "src/backend/discovery/usability.h"
#include "src/backend/plugin.h"

namespace gabbro {

struct SurveyedDevice {
  abi::DeviceFacts facts{};  // id "pci:0000:03:00.0" for a card without a plugin's device
  std::string backend;       // "rocm", "cuda", "cpu"
  std::string reason;        // why it cannot be used; empty where it can
  std::string fix;           // what to do about it; may be empty
  bool for_tests = false;    // `auto` never picks it
};

// Answers of the runtimes; each is asked once, when it is first needed (it takes up to kProbeLimit).
class Runtimes {
 public:
  explicit Runtimes(const discovery::SystemRoot& root) : root_(root) {}
  const discovery::RuntimeReport& report(discovery::RuntimeKind kind);

 private:
  const discovery::SystemRoot& root_;
  std::map<discovery::RuntimeKind, discovery::RuntimeReport> reports_;
};

// Best first as `auto` ranks them, then the cards without a device.
std::vector<SurveyedDevice> survey_devices();

// The first broken link of a card that no plugin lists as a usable device: kernel, backend, runtime, device.
discovery::Verdict judge_card(const discovery::Machine& machine, const discovery::Card& card,
                              const std::vector<Plugin>& plugins, Runtimes& runtimes);
// As above, without asking a runtime, which may take long.
discovery::Verdict judge_card_quickly(const discovery::Machine& machine, const discovery::Card& card,
                                      const std::vector<Plugin>& plugins);

// Corrects what a runtime says of memory by what the kernel counts. Facts without a PCI address stay unchanged.
void correct_memory(abi::DeviceFacts& facts, const discovery::Machine& machine);

}  // namespace gabbro
