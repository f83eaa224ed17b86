#include "apps/cli/fit_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/engine/sharded/link_times.h"
#include "src/engine/sharded/sharded_loading.h"
#include "src/engine/staged/stage_loading.h"
#include "src/models/llm/registry.h"

namespace gabbro::cli {
namespace {

// The ranges that fit, else those that would if all devices had more memory.
std::vector<llm::LayerRange> ranges_of(const staged::LayerSizes& sizes, std::vector<staged::StageDevice> devices) {
  try {
    return staged::split_layers(sizes, devices);
  } catch (const OutOfMemory&) {
    for (staged::StageDevice& device : devices) device.memory = 0;
    return staged::split_layers(sizes, devices);
  }
}

}  // namespace

bool SplitForecast::fits() const { return std::ranges::all_of(stages, &Stage::fits); }

SplitForecast forecast_split(const Workload& workload, const staged::LayerSizes& sizes, std::vector<FitDevice> devices,
                             std::span<const double> shares) {
  SplitForecast forecast{.scratch_bytes = workload.scratch_bytes()};
  std::vector<staged::SplitDevice> known;
  for (const FitDevice& device : devices) known.push_back({device.facts, device.memory_free});
  const std::vector<llm::LayerRange> ranges =
      ranges_of(sizes, staged::stage_devices(known, shares, forecast.scratch_bytes));
  // A token reads the experts that it is routed to.
  const uint64_t all = std::accumulate(sizes.weights.begin(), sizes.weights.end(), sizes.head);
  const double read =
      static_cast<double>(workload.needs.bytes_per_token) / static_cast<double>(std::max<uint64_t>(all, 1));
  double seconds = 0;
  bool all_known = true;
  for (size_t i = 0; i < devices.size(); ++i) {
    const llm::LayerRange& range = ranges[i];
    SplitForecast::Stage stage{.device = std::move(devices[i]), .layers = range};
    for (int64_t layer = range.first; layer < range.end; ++layer)
      stage.cache_bytes += sizes.cache[static_cast<size_t>(layer)];
    const uint64_t bytes = staged::memory_of(sizes, range);
    stage.weight_bytes = bytes - stage.cache_bytes;
    stage.fits = stage.device.memory_free > 0 && bytes + forecast.scratch_bytes <= stage.device.memory_free;
    const uint64_t of_token = stage.weight_bytes - (range.has_first ? sizes.embeddings : 0);
    all_known = all_known && stage.device.bandwidth > 0;
    if (all_known) seconds += static_cast<double>(of_token) * read / (stage.device.bandwidth * stage.device.share);
    forecast.stages.push_back(std::move(stage));
  }
  if (all_known && seconds > 0) forecast.tokens_per_second = 1 / seconds;
  return forecast;
}

SplitForecast forecast_parts(const Workload& workload, const Checkpoint& checkpoint, std::vector<FitDevice> devices,
                             std::span<const double> shares) {
  SplitForecast forecast{.split = Split::kTensor, .scratch_bytes = workload.scratch_bytes()};
  std::vector<staged::SplitDevice> known;
  for (const FitDevice& device : devices) known.push_back({.facts = device.facts});
  std::vector<double> speeds;
  for (const staged::StageDevice& device : staged::stage_devices(known, shares, 0)) speeds.push_back(device.speed);
  const CacheSize size{.context = workload.context, .chunk = workload.part};
  const std::vector<sharded::PartSizes> parts = sharded::part_sizes(checkpoint, speeds, workload.kv_type, size);
  for (size_t i = 0; i < devices.size(); ++i) {
    SplitForecast::Stage part{
        .device = std::move(devices[i]), .layers = {}, .weight_bytes = parts[i].weights, .cache_bytes = parts[i].cache};
    part.fits = part.device.memory_free > 0 &&
                part.weight_bytes + part.cache_bytes + forecast.scratch_bytes <= part.device.memory_free;
    forecast.stages.push_back(std::move(part));
  }
  return forecast;
}

namespace {

using Json = nlohmann::ordered_json;

SplitForecast by_layers(const Workload& workload, const Checkpoint& checkpoint, const std::vector<FitDevice>& devices,
                        const LoadOptions& wanted) {
  const CacheSize size{.context = workload.context, .chunk = workload.part * std::ssize(devices)};
  std::vector<uint64_t> cache = staged::cache_sizes(workload.needs, workload.kv_type, size);
  return forecast_split(workload, staged::sizes_of(checkpoint, llm::family_of(checkpoint).names, std::move(cache)),
                        devices, wanted.shares);
}

// Why a way is not possible; empty: it is.
std::string problem_of(const std::optional<SplitForecast>& forecast, const std::string& error) {
  if (!forecast) return error;
  for (const SplitForecast::Stage& stage : forecast->stages) {
    if (stage.device.memory_free > 0 && !stage.fits)
      return "the memory of " + std::string(stage.device.facts.id) + " is too small";
  }
  return "";
}

void choose(const Workload& workload, const std::vector<FitDevice>& devices, const LoadOptions& wanted,
            SplitsForecast& splits) {
  SplitFacts& facts = splits.facts;
  facts.layers = workload.needs.shape.layers;
  facts.bytes_per_token = workload.needs.bytes_per_token;
  facts.may_be_one = wanted.shares.empty();
  for (size_t i = 0; i < devices.size(); ++i) {
    const FitDevice& device = devices[i];
    facts.devices.push_back({.name = device.facts.id,
                             .bandwidth = device.bandwidth * device.share,
                             .holds_all = device.memory_free == 0 || workload.total_bytes() <= device.memory_free,
                             .share = wanted.shares.empty() ? std::max(device.bandwidth, 1.0) : wanted.shares[i]});
  }
  const sharded::LinkTimes links = sharded::measure_links(staged::open_devices(wanted), workload.needs.shape.embedding);
  facts.sum_seconds = links.sum;
  facts.hop_seconds = links.hop;
  splits.choice = choose_split(facts);
}

}  // namespace

SplitsForecast forecast_splits(const Workload& workload, const Checkpoint& checkpoint, std::vector<FitDevice> devices,
                               const LoadOptions& wanted) {
  SplitsForecast splits;
  if (wanted.split == Split::kLayers || devices.size() == 1) {
    splits.layers = by_layers(workload, checkpoint, devices, wanted);
  } else if (wanted.split == Split::kTensor) {
    splits.tensors = forecast_parts(workload, checkpoint, devices, wanted.shares);
  } else {
    std::string no_layers, no_tensors;
    try {
      splits.layers = by_layers(workload, checkpoint, devices, wanted);
    } catch (const Error& error) {
      no_layers = error.what();
    }
    try {
      splits.tensors = forecast_parts(workload, checkpoint, devices, wanted.shares);
    } catch (const Error& error) {
      no_tensors = error.what();
    }
    splits.facts.no_layers = problem_of(splits.layers, no_layers);
    splits.facts.no_tensors = problem_of(splits.tensors, no_tensors);
    choose(workload, devices, wanted, splits);
  }
  return splits;
}

namespace {

Json split_document(const SplitForecast& forecast) {
  const bool by_layers = forecast.split == Split::kLayers;
  Json devices = Json::array();
  for (const SplitForecast::Stage& stage : forecast.stages) {
    const uint64_t free = stage.device.memory_free;
    Json device = {{"id", stage.device.facts.id}, {"name", stage.device.facts.name}};
    if (by_layers) {
      device["first_layer"] = stage.layers.first;
      device["layers"] = stage.layers.count();
    }
    device["weight_bytes"] = stage.weight_bytes;
    device["cache_bytes"] = stage.cache_bytes;
    device["scratch_bytes"] = forecast.scratch_bytes;
    device["memory_free"] = free;
    device["fits"] = free > 0 ? Json(stage.fits) : Json(nullptr);
    devices.push_back(std::move(device));
  }
  return {{"mode", by_layers ? "layers" : "tensor"},
          {"fits", forecast.fits()},
          {"tokens_per_second", forecast.tokens_per_second > 0 ? Json(forecast.tokens_per_second) : Json(nullptr)},
          {"devices", std::move(devices)}};
}

std::string split_table(const SplitForecast& forecast) {
  const bool by_layers = forecast.split == Split::kLayers;
  std::string out =
      fmt::format("\n{:<17} {:>10} {:>10} {:>10} {:>10} {:>5}\n", by_layers ? "split by layers" : "split by tensors",
                  by_layers ? "layers" : "", "weights", "cache", "free", "fits");
  for (const SplitForecast::Stage& stage : forecast.stages) {
    const uint64_t free = stage.device.memory_free;
    out += fmt::format("{:<17} {:>10} {:>10} {:>10} {:>10} {:>5}\n", stage.device.facts.id,
                       by_layers ? fmt::format("{}-{}", stage.layers.first, stage.layers.end - 1) : "",
                       human_bytes(stage.weight_bytes), human_bytes(stage.cache_bytes),
                       free > 0 ? human_bytes(free) : "unknown", free > 0 ? (stage.fits ? "yes" : "no") : "?");
  }
  if (forecast.tokens_per_second > 0)
    out +=
        fmt::format("{:.1f} tokens/s of one text: each token goes through all devices.\n", forecast.tokens_per_second);
  return out;
}

// "one device", "layers" and "tensor" of auto: whether it fits, and its speed.
struct WayRow {
  const char* mode;
  bool possible;
  std::string problem;
  std::optional<double> seconds;
};

std::vector<WayRow> rows_of(const SplitsForecast& forecast) {
  const bool held = std::ranges::any_of(forecast.facts.devices, &SplitFacts::OneDevice::holds_all);
  const bool may = forecast.facts.may_be_one;
  const SplitChoice& choice = *forecast.choice;
  return {{"one", held && may,
           !may   ? "shares are given"
           : held ? ""
                  : "no device holds all of it",
           choice.one_device},
          {"layers", forecast.facts.no_layers.empty(), forecast.facts.no_layers, choice.layers},
          {"tensor", forecast.facts.no_tensors.empty(), forecast.facts.no_tensors, choice.tensors}};
}

const char* chosen_mode(const SplitChoice& choice) {
  if (choice.way == SplitWay::kOneDevice) return "one";
  return choice.way == SplitWay::kLayers ? "layers" : "tensor";
}

const SplitForecast* chosen_split(const SplitsForecast& forecast) {
  const bool tensors = forecast.choice ? forecast.choice->way == SplitWay::kTensors : !forecast.layers;
  const std::optional<SplitForecast>& split = tensors ? forecast.tensors : forecast.layers;
  return split ? &*split : nullptr;
}

}  // namespace

Json splits_document(const SplitsForecast& forecast) {
  const SplitForecast* const split = chosen_split(forecast);
  if (!forecast.choice) return split_document(*split);
  const auto rate = [](const std::optional<double>& seconds) { return seconds ? Json(1 / *seconds) : Json(nullptr); };
  Json splits = Json::array();
  for (const WayRow& row : rows_of(forecast)) {
    splits.push_back({{"mode", row.mode},
                      {"possible", row.possible},
                      {"problem", row.problem},
                      {"tokens_per_second", rate(row.seconds)}});
  }
  const SplitChoice& choice = *forecast.choice;
  Json out = {{"mode", "auto"}, {"chosen", chosen_mode(choice)}, {"why", choice.why}};
  if (choice.way == SplitWay::kOneDevice) {
    out["device"] = forecast.facts.devices[choice.device].name;
  } else if (split != nullptr) {
    out["split"] = split_document(*split);
  }
  out["sum_seconds"] = forecast.facts.sum_seconds;
  out["hop_seconds"] = forecast.facts.hop_seconds;
  out["splits"] = std::move(splits);
  return out;
}

std::string splits_table(const SplitsForecast& forecast) {
  const SplitForecast* const split = chosen_split(forecast);
  if (!forecast.choice) return split_table(*split);
  std::string out = fmt::format("\n{:<17} {:>10} {:>10}\n", "split", "possible", "tokens/s");
  for (const WayRow& row : rows_of(forecast)) {
    out += fmt::format("{:<17} {:>10} {:>10}  {}\n", row.mode, row.possible ? "yes" : "no",
                       row.seconds ? fmt::format("{:.1f}", 1 / *row.seconds) : "unknown", printable(row.problem));
  }
  out += fmt::format("auto: {}\n", forecast.choice->why);
  if (forecast.choice->way != SplitWay::kOneDevice && split != nullptr) out += split_table(*split);
  return out;
}

}  // namespace gabbro::cli
