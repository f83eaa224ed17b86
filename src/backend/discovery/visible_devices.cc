#include "src/backend/discovery/visible_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

using Cards = std::vector<const Card*>;

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The card that one entry names: its number, or the beginning of its UUID.
const Card* named(const std::string& entry, const Cards& cards) {
  if (const auto number = parse_number(entry)) return *number < cards.size() ? cards[*number] : nullptr;
  if (!lower(entry).starts_with("gpu-") || entry.size() == 4) return nullptr;
  const Card* match = nullptr;
  for (const Card* card : cards) {
    if (!lower(card->uuid).starts_with(lower(entry))) continue;
    if (match != nullptr) return nullptr;  // the beginning of several
    match = card;
  }
  return match;
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string shown(std::string_view text) {  // a value in a message: short, and on one line
  std::string out(text.substr(0, 64));
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return text.size() > 64 ? out + "..." : out;
}

Cards filtered(const Cards& cards, const std::string& variable, const std::string& value, const char* what,
               std::vector<std::string>& problems) {
  Cards left;
  const auto entries = split(value, ",");
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string entry = trimmed(entries[i]);
    const Card* card = named(entry, cards);
    if (card != nullptr && std::ranges::find(left, card) == left.end()) left.push_back(card);
    if (card != nullptr) continue;
    if (entry == "-1" && entries.size() == 1) break;  // said below
    problems.push_back(fmt::format("{}={}: '{}' names none of the {} {}{}", variable, shown(value), shown(entry),
                                   cards.size(), what,
                                   i + 1 < entries.size() ? "; it and what stands behind it is ignored" : ""));
    break;
  }
  if (left.empty() && !cards.empty()) {
    problems.push_back(fmt::format("{}={} hides every one of the {} {}", variable, shown(value), cards.size(), what));
  }
  return left;
}

void check_amd(const Environment& environment, Visibility& visibility) {
  const auto rocr = environment.get("ROCR_VISIBLE_DEVICES"), hip = environment.get("HIP_VISIBLE_DEVICES"),
             cuda = environment.get("CUDA_VISIBLE_DEVICES"), ordinal = environment.get("GPU_DEVICE_ORDINAL");
  std::vector<std::string>& problems = visibility.problems;
  if (visibility.amd.empty()) return;
  if (rocr) {
    visibility.amd = filtered(visibility.amd, "ROCR_VISIBLE_DEVICES", *rocr, "AMD GPUs", problems);
  }
  const char* variable = hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  if (hip && cuda && *hip != *cuda) {
    problems.push_back(
        fmt::format("HIP_VISIBLE_DEVICES={} and CUDA_VISIBLE_DEVICES={} differ: AMD GPUs follow the first", shown(*hip),
                    shown(*cuda)));
  }
  if (const auto& value = hip ? hip : cuda) {
    const char* what = rocr  ? "AMD GPUs that ROCR_VISIBLE_DEVICES leaves, which renumbers them"
                       : hip ? "AMD GPUs"
                             : "AMD GPUs (HIP reads this variable too)";
    visibility.amd = filtered(visibility.amd, variable, *value, what, problems);
    if (rocr && !visibility.amd.empty() && *rocr != "0") {
      problems.push_back(
          fmt::format("ROCR_VISIBLE_DEVICES={} renumbers the cards before {}={} picks from them: set one", shown(*rocr),
                      variable, shown(*value)));
    }
  }
  if (ordinal && !hip && !rocr) {
    problems.push_back(
        fmt::format("GPU_DEVICE_ORDINAL={} is read by OpenCL and old HIP runtimes alone: "
                    "use HIP_VISIBLE_DEVICES",
                    shown(*ordinal)));
  }
}

}  // namespace

bool Visibility::shows(const Card& card) const {
  const Cards& same = card.amd() ? amd : nvidia;
  return std::ranges::find(same, &card) != same.end();
}

Visibility visible_cards(const std::vector<Card>& cards, const Environment& environment) {
  Visibility visibility;
  for (const Card& card : cards) {
    if (!card.amd() && card.pci.driver == "nvidia") visibility.nvidia.push_back(&card);
    if (card.kfd) visibility.amd.push_back(&card);  // what the runtime would number
  }
  std::ranges::stable_sort(visibility.amd, {}, [](const Card* card) { return card->kfd->number; });
  check_amd(environment, visibility);
  const auto cuda = environment.get("CUDA_VISIBLE_DEVICES");
  if (cuda && !visibility.nvidia.empty()) {
    visibility.nvidia = filtered(visibility.nvidia, "CUDA_VISIBLE_DEVICES", *cuda, "NVIDIA GPUs", visibility.problems);
  }
  return visibility;
}

std::vector<std::pair<std::string, std::optional<std::string>>> variables_that_show(
    const std::vector<Card>& cards, const std::vector<const Card*>& chosen) {
  const Cards all = visible_cards(cards, Environment{}).amd;
  std::vector<std::string> names;
  for (const Card* card : chosen) {
    const auto number = std::ranges::find(all, card) - all.begin();
    const bool unique = !card->uuid.empty() && std::ranges::count(all, card->uuid, &Card::uuid) == 1;
    names.push_back(unique ? card->uuid : std::to_string(number));
  }
  // One variable: the others would pick from what it leaves, by other numbers.
  return {{"ROCR_VISIBLE_DEVICES", fmt::format("{}", fmt::join(names, ","))},
          {"HIP_VISIBLE_DEVICES", std::nullopt},
          {"CUDA_VISIBLE_DEVICES", std::nullopt},
          {"GPU_DEVICE_ORDINAL", std::nullopt}};
}

std::string overridden_target(const Environment& environment) {
  const auto parts = split(environment.get("HSA_OVERRIDE_GFX_VERSION").value_or(""), ".");
  if (parts.size() != 3) return {};
  uint64_t version = 0;
  for (const std::string& part : parts) {
    const auto number = parse_number(part);
    if (!number || *number > 99) return {};
    version = version * 100 + *number;
  }
  return gfx_name(version);
}

}  // namespace gabbro::discovery
