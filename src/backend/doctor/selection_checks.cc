// Device selection: variables that hide, renumber or rename cards.
#include <fmt/format.h>

#include <algorithm>

#include "src/backend/discovery/visible_devices.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {

using namespace discovery;

Finding check_visible_devices(const Examination& e) {
  if (e.machine.cards.empty()) return skipped("there is no GPU");
  const Visibility visibility = visible_cards(e.machine.cards, e.machine.environment);
  const std::string visible =
      fmt::format("{} AMD and {} NVIDIA GPUs are visible", visibility.amd.size(), visibility.nvidia.size());
  if (visibility.problems.empty()) return ok(visible);
  std::string problems;
  for (const std::string& problem : visibility.problems) problems += (problems.empty() ? "" : "; ") + problem;
  return warning(fmt::format("{}: {}", visible, problems),
                 "unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL, and name the "
                 "card with --device pci:<address> (gabbro devices)");
}

Finding check_override(const Examination& e) {
  const auto value = e.machine.environment.get("HSA_OVERRIDE_GFX_VERSION");
  if (!value) return ok("HSA_OVERRIDE_GFX_VERSION is not set");
  const std::string target = overridden_target(e.machine.environment);
  const std::string unset = "unset HSA_OVERRIDE_GFX_VERSION, also in ~/.profile and ~/.bashrc";
  if (target.empty()) return warning("HSA_OVERRIDE_GFX_VERSION is not of the form 11.0.0", unset);
  const auto cards = driven_amd_cards(e);
  if (cards.empty()) return warning("HSA_OVERRIDE_GFX_VERSION is set, but there is no AMD GPU to use", unset);
  for (const Card* card : cards) {
    if (card->architecture().empty() || card->architecture() == target) continue;
    return warning(fmt::format("HSA_OVERRIDE_GFX_VERSION makes every card a {}, but {} is none: unneeded, since Gabbro "
                               "has code for each card's own target, and a cause of wrong results",
                               target, label(*card)),
                   unset);
  }
  return warning(fmt::format("HSA_OVERRIDE_GFX_VERSION is unneeded: the cards are {} without it", target), unset);
}

Finding check_architecture(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  if (cards.empty()) return skipped(kNoAmdCard);
  std::string list;
  for (const Card* card : cards) {
    const std::string target = card->architecture();
    if (target.empty()) continue;
    // gfx7xx and gfx8xx: three digits after "gfx", not beginning with 9.
    if (target.size() == 6 && target[3] < '9') {
      return error(
          fmt::format("{}: {} is older than gfx900, the first target that today's ROCm runs", label(*card), target),
          "use --device cpu: no driver or setting makes this card usable");
    }
    list += fmt::format("{}{}, {} compute units, wave {}", list.empty() ? "" : "; ", label(*card),
                        card->kfd->compute_units, card->kfd->wave_size);
  }
  return list.empty() ? skipped("the compute driver names no target") : ok(list);
}

Finding check_integrated_and_discrete(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  const Card *integrated = nullptr, *discrete = nullptr;
  for (const Card* card : cards) {
    if (card->kfd) (card->integrated ? integrated : discrete) = card;
  }
  if (integrated == nullptr || discrete == nullptr) return ok("no mixture of integrated and discrete AMD GPUs");
  const bool integrated_first = integrated->kfd->number < discrete->kfd->number;
  const std::string both = fmt::format("integrated {} next to discrete {}", label(*integrated), label(*discrete));
  if (!integrated_first) return ok(both + ": --device auto takes the discrete one");
  return warning(both +
                     ": the runtime numbers the integrated one first, so that other programs take it; Gabbro's "
                     "--device auto takes the discrete one",
                 discrete->uuid.empty()
                     ? "switch the integrated GPU off in the firmware's settings"
                     : fmt::format("for other programs: export ROCR_VISIBLE_DEVICES={}", discrete->uuid));
}

Finding check_backends(const Examination& e) {
  std::string list;
  for (const Plugin& plugin : e.plugins) {
    if (plugin.backend == nullptr) {
      return error(fmt::format("the backend {} cannot be loaded: {}", plugin.name, plugin.reason), "reinstall Gabbro");
    }
    list += (list.empty() ? "" : ", ") + plugin.name;
    for (const auto& file : plugin.skipped) list += fmt::format(" (not {}, a later folder)", file.string());
  }
  if (list.empty()) {
    return error("no backend is installed: there is no libgabbro_*.so",
                 "reinstall Gabbro, or set GABBRO_PLUGIN_PATH to the folder of its plugins");
  }
  for (const Card& card : e.machine.cards) {
    if (std::ranges::find(e.plugins, card.backend(), &Plugin::name) != e.plugins.end()) continue;
    return warning(fmt::format("installed: {}; but {} needs the backend {}", list, label(card), card.backend()),
                   fmt::format("install libgabbro_{}.so next to the program, or set GABBRO_PLUGIN_PATH to its folder",
                               card.backend()));
  }
  return ok("installed: " + list);
}

}  // namespace gabbro::doctor
