// Models of a known shape with random weights: for measuring speed without a file.
#pragma once

#include <memory>

#include "gabbro/engine/session.h"
#include "src/models/llm/model_plan.h"

namespace gabbro {

// Loads it as a GGUF file is loaded, tensor by tensor, so that it never takes much more memory than it has weights; it
// has no vocabulary. The seed is always the same. Throws bad_input, before anything is made, where the device's free
// memory does not hold weights, cache and scratch; and as Engine::load does. `device` is as there.
std::shared_ptr<Engine> load_random_model(const llm::Blueprint& blueprint, const FileType& type,
                                          const LoadOptions& options, std::shared_ptr<Device> device = nullptr);

}  // namespace gabbro
