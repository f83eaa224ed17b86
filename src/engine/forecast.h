// Forecasts whether a model fits a device, how fast it will be there, and which smaller workload would fit.
#pragma once

#include <optional>
#include <string>

#include "src/engine/model_needs.h"

namespace gabbro {

// The workload. `plan` belongs to the model; other types are computed from it.
struct Workload {
  ModelNeeds needs;
  llm::ModelPlan plan;
  int64_t context = 0;  // tokens
  DType kv_type = DType::f16;
  int64_t part = kPrefillChunk;  // tokens of a prompt at a time: prefill_chunk() of the device

  uint64_t kv_bytes() const;
  uint64_t scratch_bytes() const;
  uint64_t total_bytes() const;  // weights, cache and scratch
};

// Each of these changes would make the workload fit by itself. Empty: the change is not enough.
struct Remedies {
  std::optional<int64_t> context;   // the longest, in tokens
  std::optional<DType> kv_type;     // f16 or q8_0
  std::optional<std::string> type;  // the largest type of weights that is smaller
};
Remedies remedies(const Workload& workload, uint64_t free_memory);

// Generation reads all weights, and the keys and values so far, for every token:
//   tokens/s = share · bandwidth / (weight bytes + KV bytes)
// `share` is the fraction of the bandwidth that generation reaches: three quarters of a bandwidth that was measured by
// reading (docs/reports/performance.md: one half to nine tenths), and less of a published figure, because reading
// itself reaches about 0.85 of that.
inline constexpr double kShareOfMeasured = 0.75;
inline constexpr double kShareOfPublished = 0.6;
double tokens_per_second(const Workload& workload, double bandwidth, double share, int64_t tokens_in_cache);

}  // namespace gabbro
