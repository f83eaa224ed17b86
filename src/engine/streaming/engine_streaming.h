// Streaming as the engine uses it: planned, and started, while a model is loaded. Engine::State::run_pass uses it.
#pragma once

#include <memory>

#include "src/engine/engine_state.h"
#include "src/engine/streaming/placement.h"

namespace gabbro::streaming {

// The stream for options.memory; null where all fits, or there is no limit. Fills in facts.streaming: the plan, the
// link that bounds a pass, and the forecast. Throws kNoDevice that names the smallest limit that works.
std::unique_ptr<WeightStream> plan_stream(const Checkpoint& checkpoint, const ModelNeeds& needs,
                                          const LoadOptions& options, const std::shared_ptr<Device>& device,
                                          ModelFacts& facts);

// Begins to read, and adds to facts.streaming.link how files are read.
void start_stream(WeightStream& stream, ModelFacts& facts);

Error does_not_stream(const ModelFacts& facts);

}  // namespace gabbro::streaming
