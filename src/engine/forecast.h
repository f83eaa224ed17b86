// Whether a model fits a device, how fast it will be there, and what would fit where it does not.
#pragma once

#include <optional>
#include <string>

#include "src/engine/model_needs.h"

namespace gabbro {

// The workload: `plan` is that of the model, from which other types are computed.
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

// Each of these alone would make the workload fit; empty: it would not.
struct Remedies {
  std::optional<int64_t> context;   // the longest, in tokens
  std::optional<DType> kv_type;     // f16 or q8_0
  std::optional<std::string> type;  // the largest type of weights that is smaller
};
Remedies remedies(const Workload& workload, uint64_t free_memory);

// Generation reads all weights, and the keys and values so far, for every token:
//   tokens/s = share · bandwidth / (weight bytes + KV bytes)
// `share` is what generation gets of the bandwidth. Of one that was measured by reading it is three quarters
// (docs/reports/performance.md: one half to nine tenths); of a published figure, of which reading itself gets about
// 0.85, less.
inline constexpr double kShareOfMeasured = 0.75;
inline constexpr double kShareOfPublished = 0.6;
double tokens_per_second(const Workload& workload, double bandwidth, double share, int64_t tokens_in_cache);

}  // namespace gabbro
