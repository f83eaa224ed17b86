// One check of `gabbro doctor`: what it may look at, and what it finds.
#pragma once

#include <string>
#include <vector>

#include "src/backend/discovery/machine.h"
#include "src/backend/plugin.h"
#include "src/backend/survey.h"

namespace gabbro::doctor {

using abi::CheckStatus;

struct Finding {
  CheckStatus status = CheckStatus::kOk;
  std::string summary;  // one line
  std::string fix;      // the exact remedy in one line; empty where there is nothing to do
};

struct Examination {
  const discovery::Machine& machine;
  const std::vector<Plugin>& plugins;
  Runtimes& runtimes;
  bool self_test = false;  // run what takes long: checks on the hardware
};

struct Check {
  const char* id;  // stable: scripts look for it
  Finding (*run)(const Examination& examination);
};

inline Finding ok(std::string summary) { return {CheckStatus::kOk, std::move(summary), {}}; }
inline Finding skipped(std::string why) { return {CheckStatus::kSkipped, std::move(why), {}}; }
inline Finding warning(std::string summary, std::string fix) {
  return {CheckStatus::kWarning, std::move(summary), std::move(fix)};
}
inline Finding error(std::string summary, std::string fix) {
  return {CheckStatus::kError, std::move(summary), std::move(fix)};
}

// "0000:03:00.0 (gfx1100)": how findings name a card.
std::string label(const discovery::Card& card);

// Cards of AMD that its driver has; what most checks are about.
std::vector<const discovery::Card*> driven_amd_cards(const Examination& examination);
inline constexpr const char* kNoAmdCard = "there is no AMD GPU with the amdgpu driver";

}  // namespace gabbro::doctor
