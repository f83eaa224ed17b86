#include "src/engine/split_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gabbro {
namespace {

// The fastest device that holds the model, the first of equal ones; none: no device does.
std::optional<size_t> holder_of(const SplitFacts& facts) {
  std::optional<size_t> best;
  for (size_t i = 0; i < facts.devices.size(); ++i) {
    if (!facts.devices[i].holds_all) continue;
    if (!best || facts.devices[i].bandwidth > facts.devices[*best].bandwidth) best = i;
  }
  return best;
}

// Seconds of a token with the weights split by the shares: of all devices in turn, and of the slowest one.
struct ReadTimes {
  double in_turn = 0, slowest = 0;
};
ReadTimes read_times(const SplitFacts& facts) {
  double shares = 0;
  for (const SplitFacts::OneDevice& device : facts.devices) shares += device.share;
  ReadTimes times;
  for (const SplitFacts::OneDevice& device : facts.devices) {
    const double seconds = static_cast<double>(facts.bytes_per_token) * device.share / shares / device.bandwidth;
    times.in_turn += seconds;
    times.slowest = std::max(times.slowest, seconds);
  }
  return times;
}

std::string speed_text(const char* way, const std::optional<double>& seconds, const std::string& problem) {
  if (!problem.empty()) return fmt::format("{}: {}", way, problem);
  return seconds ? fmt::format("{} {:.3g} tokens/s", way, 1 / *seconds) : std::string();
}

void compare(const SplitFacts& facts, const std::optional<size_t>& holder, SplitChoice& choice) {
  const double fixed = static_cast<double>(facts.layers) * kLayerSeconds;
  const double bytes = static_cast<double>(facts.bytes_per_token);
  const ReadTimes reads = read_times(facts);
  if (holder) choice.one_device = fixed + bytes / facts.devices[*holder].bandwidth;
  if (facts.no_layers.empty())
    choice.layers = fixed + reads.in_turn + static_cast<double>(facts.devices.size() - 1) * facts.hop_seconds;
  if (facts.no_tensors.empty() && facts.sum_seconds > 0)
    choice.tensors = fixed + reads.slowest + 2 * static_cast<double>(facts.layers) * facts.sum_seconds;
  double best = 0;
  const auto offer = [&](SplitWay way, const std::optional<double>& seconds) {
    if (!seconds || (best > 0 && *seconds >= best)) return;
    best = *seconds;
    choice.way = way;
  };
  offer(SplitWay::kOneDevice, choice.one_device);
  offer(SplitWay::kLayers, choice.layers);
  offer(SplitWay::kTensors, choice.tensors);
}

}  // namespace

SplitChoice choose_split(const SplitFacts& facts) {
  const std::optional<size_t> holder = facts.may_be_one ? holder_of(facts) : std::nullopt;
  SplitChoice choice{
      .way = facts.no_layers.empty() || !facts.no_tensors.empty() ? SplitWay::kLayers : SplitWay::kTensors,
      .device = holder.value_or(0),
      .why = {},
      .one_device = {},
      .layers = {},
      .tensors = {}};
  const auto unknown = std::ranges::find(facts.devices, 0.0, &SplitFacts::OneDevice::bandwidth);
  const bool known = unknown == facts.devices.end();
  if (known) {
    compare(facts, holder, choice);
  } else if (holder) {
    choice.way = SplitWay::kOneDevice;
  }
  const std::string name = holder ? facts.devices[*holder].name : "";
  const std::string text = choice.way == SplitWay::kOneDevice ? "one device, " + name
                           : choice.way == SplitWay::kLayers  ? "by layers"
                                                              : "by tensors";
  std::vector<std::string> reasons;
  const auto add = [&](const std::string& reason) {
    if (!reason.empty()) reasons.push_back(reason);
  };
  if (!known) add(fmt::format("the memory bandwidth of {} is not known", unknown->name));
  if (holder) {
    add(known ? speed_text("one device", choice.one_device, "") : name + " holds the model");
  } else {
    add(facts.may_be_one ? "no device holds all of it" : "shares are given");
  }
  add(speed_text("layers", choice.layers, facts.no_layers));
  add(speed_text("tensors", choice.tensors, facts.no_tensors));
  if (choice.tensors) add(fmt::format("a sum over the devices takes {:.3g} us", facts.sum_seconds * 1e6));
  choice.why = text;
  for (size_t i = 0; i < reasons.size(); ++i) choice.why += (i == 0 ? ": " : "; ") + reasons[i];
  return choice;
}

}  // namespace gabbro
