// The compiled steps of one token for each sequence, by their number of sequences. Private to src/engine.
#pragma once

#include <map>

#include "src/engine/cache/engine_cache.h"
#include "src/engine/decode_step.h"
#include "src/engine/loaded_model.h"

namespace gabbro {

class DecodePlans {
 public:
  DecodePlans(const LoadedModel& loaded, const EngineCache& cache) : loaded_(loaded), cache_(cache) {}

  // The inputs of a step of S sequences.
  DecodeStep& step(int64_t sequences);
  // Its plan with all layers, traced when it is first wanted.
  Compiled& plan(DecodeStep& step, DecodeResult result) const;
  // The results of the step from its logits.
  static std::vector<Tensor> results(const Tensor& logits, const DecodeStep& step, DecodeResult result);
  // Drops all of them, after a change of what they compute.
  void clear();

  QueuedStep queued;  // of one of the steps

 private:
  const LoadedModel& loaded_;
  const EngineCache& cache_;
  std::map<int64_t, DecodeStep> steps_;  // by S
};

}  // namespace gabbro
