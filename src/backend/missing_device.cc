#include "src/backend/missing_device.h"

#include <algorithm>

#include "src/backend/survey.h"

namespace gabbro {
namespace {

using namespace discovery;

struct Explained {
  const Card* card = nullptr;
  Verdict verdict;
};

// The card that is nearest to being usable: the last link to break says most.
template <class Judge>
Explained nearest(const std::vector<const Card*>& cards, Judge judge) {
  Explained best;
  for (const Card* card : cards) {
    Verdict verdict = judge(*card);
    if (best.card == nullptr || verdict.broken > best.verdict.broken) best = {card, std::move(verdict)};
  }
  return best;
}

Error without_cards(const Machine& machine, const std::string& what, const std::string& maker) {
  if (machine.kernel.wsl) {
    // HIP reaches AMD cards through it without a card in /sys.
    const bool reachable = machine.root.exists("/dev/dxg") && maker != "NVIDIA";
    return Error(ErrorCode::kNoDevice, fmt::format("no usable {} device: WSL shows no {} GPU to Linux", what, maker),
                 reachable ? "gabbro doctor says what ROCm for WSL lacks (checks wsl and hip-runtime)"
                           : "run Gabbro on Linux itself, or --device cpu");
  }
  return Error(ErrorCode::kNoDevice, fmt::format("no usable {} device: this machine has no {} GPU", what, maker),
               "gabbro devices lists what there is; --device auto takes the best of it");
}

bool named_by(const Card& card, const std::string& name) {
  if (name.starts_with("pci:")) return card.pci.address == normalized_pci_address(name.substr(4));
  return name == card.uuid || (!card.architecture().empty() && name == card.architecture());
}

bool is_backend(const std::string& name, const std::string& backend) {
  return name == backend || name.starts_with(backend + ":");
}

// The cards that a name stands for.
std::vector<const Card*> cards_named(const Machine& machine, const std::string& name) {
  if (is_backend(name, "rocm")) return machine.cards_of(Vendor::kAmd);
  if (is_backend(name, "cuda")) return machine.cards_of(Vendor::kNvidia);
  std::vector<const Card*> cards;
  for (const Card& card : machine.cards) {
    if (name == "gpu" || named_by(card, name)) cards.push_back(&card);
  }
  return cards;
}

}  // namespace

std::optional<Error> explain_missing_gpu(const std::string& name, const std::vector<Plugin>& plugins) {
  const bool rocm = is_backend(name, "rocm"), cuda = is_backend(name, "cuda"), any = name == "gpu";
  const Machine machine = read_machine();
  const std::vector<const Card*> cards = cards_named(machine, name);
  if (cards.empty()) {
    if (rocm) return without_cards(machine, "ROCm", "AMD");
    if (cuda) return without_cards(machine, "CUDA", "NVIDIA");
    if (any) return without_cards(machine, "GPU", "AMD or NVIDIA");
    return std::nullopt;
  }
  Runtimes runtimes(machine.root);
  const Explained found =
      nearest(cards, [&](const Card& card) { return judge_card(machine, card, plugins, runtimes); });
  const std::string message = rocm || cuda || any
                                  ? fmt::format("no usable {} device: {}",
                                                rocm   ? "ROCm"
                                                : cuda ? "CUDA"
                                                       : "GPU",
                                                found.verdict.reason)
                                  : fmt::format("device {} is not usable: {}", name, found.verdict.reason);
  return Error(ErrorCode::kNoDevice, message, found.verdict.fix);
}

std::optional<std::string> describe_unused_gpu() {
  const Machine machine = read_machine();
  const std::vector<Plugin> plugins = load_plugins();
  std::vector<const Card*> cards;
  for (const Card& card : machine.cards) cards.push_back(&card);
  const Explained found = nearest(cards, [&](const Card& card) { return judge_card_quickly(machine, card, plugins); });
  if (found.card == nullptr) return std::nullopt;
  const std::string reason = found.verdict.holds() ? "gabbro doctor says why" : found.verdict.reason;
  return fmt::format("{} ({}) is not used: {}", found.card->pci.name, found.card->id(), reason);
}

}  // namespace gabbro
