// fit --devices: what each device would hold of a model, by layers or by tensors, and how fast each way would be.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/survey.h"
#include "src/engine/forecast.h"
#include "src/engine/split_choice.h"
#include "src/engine/staged/layer_split.h"

namespace gabbro::cli {

// A device of the forecast. Memory 0 and bandwidth 0: unknown.
struct FitDevice {
  abi::DeviceFacts facts;
  uint64_t memory_free = 0;
  double bandwidth = 0;  // bytes per second
  double share = 0;      // of it that generation gets
};

struct SplitForecast {
  struct Stage {
    FitDevice device;
    llm::LayerRange layers;
    uint64_t weight_bytes = 0, cache_bytes = 0;
    bool fits = false;
  };
  Split split = Split::kLayers;
  std::vector<Stage> stages;     // of kTensor with a part of each tensor, and no layers
  uint64_t scratch_bytes = 0;    // of each
  double tokens_per_second = 0;  // of one text whose cache is empty; 0: unknown

  bool fits() const;
};

// Throws bad_input where there are fewer layers than devices.
SplitForecast forecast_split(const Workload& workload, const staged::LayerSizes& sizes, std::vector<FitDevice> devices,
                             std::span<const double> shares);

// Each device has a part of each tensor. Throws bad_input for models whose tensors have no cut.
SplitForecast forecast_parts(const Workload& workload, const Checkpoint& checkpoint, std::vector<FitDevice> devices,
                             std::span<const double> shares);

// The way of --split, or for auto all splits and the choice among them.
struct SplitsForecast {
  std::optional<SplitForecast> layers, tensors;
  std::optional<SplitChoice> choice;  // of auto
  SplitFacts facts;                   // likewise
};
// Opens the devices for auto, to measure their links. Throws bad_input as above for a way that --split names.
SplitsForecast forecast_splits(const Workload& workload, const Checkpoint& checkpoint, std::vector<FitDevice> devices,
                               const LoadOptions& wanted);

nlohmann::ordered_json splits_document(const SplitsForecast& forecast);
std::string splits_table(const SplitsForecast& forecast);

}  // namespace gabbro::cli
