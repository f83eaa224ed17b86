// How a model is spread over devices: whole on one, its layers over several, its tensors cut for several, or only the
// part of this process. A kind has one object; what differs by model is in LoadedModel. Private to src/engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/engine/loaded_model.h"
#include "src/engine/model_pass.h"

namespace gabbro {

struct ModelNeeds;  // model_needs.h

struct PlacementLoad {
  const Checkpoint& checkpoint;
  const LoadOptions& wanted;
  const ModelNeeds& needs;
  llm::LoadModelOptions options;  // of a model on one device
};

struct PlacementPass {
  const LoadedModel& loaded;
  const EngineCache& cache;
  DecodePlans& plans;
  Evaluate evaluate;
  bool decodes;  // as ModelPass::decodes()
};

class ModelPlacement {
 public:
  virtual ~ModelPlacement() = default;

  // Makes the model's parts for these devices, which are open: none, or loaded.device and others.
  virtual void take_devices(std::span<const std::shared_ptr<Device>> /*devices*/, LoadedModel& /*loaded*/) const {}
  // Loads the weights. Throws bad_input for options that the kind does not take and models that it cannot split, and
  // OutOfMemory.
  virtual void load(const PlacementLoad& load, LoadedModel& loaded) const = 0;
  // Throws bad_input for streamed weights of a model without stages.
  virtual std::unique_ptr<ModelPass> make_pass(const PlacementPass& pass) const = 0;

  // "Radeon RX 7900 XTX (layers 0-15), ..." for several devices.
  virtual std::string describe(const LoadedModel& loaded) const;
  // The layers of the cache, and their devices.
  virtual std::vector<nn::CacheLayer> cache_layers(const LoadedModel& loaded) const;
  virtual std::vector<std::shared_ptr<Device>> layer_devices(const LoadedModel& loaded) const;
};

// The kind for a model on that number of devices.
const ModelPlacement& placement_of(const LoadOptions& options, size_t devices);

}  // namespace gabbro
