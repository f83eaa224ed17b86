// fit --devices: which device would hold which layers of a model, and how fast they would be together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/backend/survey.h"
#include "src/engine/forecast.h"
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
  std::vector<Stage> stages;
  uint64_t scratch_bytes = 0;    // of each
  double tokens_per_second = 0;  // of one text whose cache is empty; 0: unknown

  bool fits() const;
};

// Throws bad_input where there are fewer layers than devices.
SplitForecast forecast_split(const Workload& workload, const staged::LayerSizes& sizes, std::vector<FitDevice> devices,
                             std::span<const double> shares);

nlohmann::ordered_json split_document(const SplitForecast& forecast);
std::string split_table(const SplitForecast& forecast);

}  // namespace gabbro::cli
