#include "apps/cli/fit_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/engine/staged/stage_loading.h"

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

nlohmann::ordered_json split_document(const SplitForecast& forecast) {
  using Json = nlohmann::ordered_json;
  Json devices = Json::array();
  for (const SplitForecast::Stage& stage : forecast.stages) {
    const uint64_t free = stage.device.memory_free;
    devices.push_back({{"id", stage.device.facts.id},
                       {"name", stage.device.facts.name},
                       {"first_layer", stage.layers.first},
                       {"layers", stage.layers.count()},
                       {"weight_bytes", stage.weight_bytes},
                       {"cache_bytes", stage.cache_bytes},
                       {"scratch_bytes", forecast.scratch_bytes},
                       {"memory_free", free},
                       {"fits", free > 0 ? Json(stage.fits) : Json(nullptr)}});
  }
  return {{"mode", "layers"},
          {"fits", forecast.fits()},
          {"tokens_per_second", forecast.tokens_per_second > 0 ? Json(forecast.tokens_per_second) : Json(nullptr)},
          {"devices", std::move(devices)}};
}

std::string split_table(const SplitForecast& forecast) {
  std::string out = fmt::format("\n{:<17} {:>10} {:>10} {:>10} {:>10} {:>5}\n", "split by layers", "layers", "weights",
                                "cache", "free", "fits");
  for (const SplitForecast::Stage& stage : forecast.stages) {
    const uint64_t free = stage.device.memory_free;
    out += fmt::format("{:<17} {:>10} {:>10} {:>10} {:>10} {:>5}\n", stage.device.facts.id,
                       fmt::format("{}-{}", stage.layers.first, stage.layers.end - 1), human_bytes(stage.weight_bytes),
                       human_bytes(stage.cache_bytes), free > 0 ? human_bytes(free) : "unknown",
                       free > 0 ? (stage.fits ? "yes" : "no") : "?");
  }
  if (forecast.tokens_per_second > 0)
    out +=
        fmt::format("{:.1f} tokens/s of one text: each token goes through all devices.\n", forecast.tokens_per_second);
  return out;
}

}  // namespace gabbro::cli
