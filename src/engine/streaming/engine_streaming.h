// Streaming is planned, and started, while a model is loaded. streamed_pass.h uses it.
#pragma once

#include <memory>

#include "gabbro/engine/engine.h"
#include "src/engine/model_needs.h"
#include "src/engine/streaming/placement.h"
#include "src/engine/streaming/weight_stream.h"

namespace gabbro::streaming {

// The stream for options.memory; null where all fits, or there is no limit. Fills in facts.streaming: the plan, the
// link that bounds a pass, and the forecast. Throws kNoDevice that names the smallest limit that
// works, and bad_input for quantization or adapters where weights are streamed.
std::unique_ptr<WeightStream> plan_stream(const Checkpoint& checkpoint, const ModelNeeds& needs,
                                          const LoadOptions& options, const std::shared_ptr<Device>& device,
                                          ModelFacts& facts);

// Begins to read, and adds to facts.streaming.link how files are read.
void start_stream(WeightStream& stream, ModelFacts& facts);

}  // namespace gabbro::streaming
