#include "src/backend/doctor/doctor.h"

#include <fmt/format.h>

namespace gabbro::doctor {

std::string label(const discovery::Card& card) {
  const std::string architecture = card.architecture();
  return architecture.empty() ? card.pci.address : fmt::format("{} ({})", card.pci.address, architecture);
}

std::vector<const discovery::Card*> driven_amd_cards(const Examination& examination) {
  std::vector<const discovery::Card*> cards;
  for (const discovery::Card* card : examination.machine.cards_of(discovery::Vendor::kAmd)) {
    if (card->pci.driver == "amdgpu") cards.push_back(card);
  }
  return cards;
}

std::vector<Diagnosis> examine(bool self_test) {
  const discovery::Machine machine = discovery::read_machine();
  const std::vector<Plugin> plugins = load_plugins();
  Runtimes runtimes(machine.root);
  const Examination examination{machine, plugins, runtimes, self_test};
  std::vector<Diagnosis> diagnoses;
  for (const Check& check : check_table()) diagnoses.push_back({check.id, check.run(examination)});
  return diagnoses;
}

const char* status_name(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kWarning:
      return "warning";
    case CheckStatus::kError:
      return "error";
    case CheckStatus::kSkipped:
      break;
  }
  return "skipped";
}

}  // namespace gabbro::doctor
