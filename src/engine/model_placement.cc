#include "src/engine/model_placement.h"

#include <algorithm>
#include <cmath>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/engine/processes/process_part.h"
#include "src/engine/processes/process_pass.h"
#include "src/engine/resident_pass.h"
#include "src/engine/sharded/sharded_loading.h"
#include "src/engine/sharded/sharded_pass.h"
#include "src/engine/staged/stage_loading.h"
#include "src/engine/staged/staged_pass.h"
#include "src/engine/streaming/engine_streaming.h"
#include "src/engine/streaming/streamed_pass.h"

namespace gabbro {
namespace {

std::vector<llm::ScaledAdapter> load_adapters(const std::vector<AdapterOption>& options) {
  std::vector<llm::ScaledAdapter> adapters;
  for (const AdapterOption& one : options) {
    if (!std::isfinite(one.scale)) throw bad_input("{}: the adapter's scale is not a number", one.path);
    adapters.push_back(
        {std::make_shared<const llm::Adapter>(llm::Adapter::open(one.path)), std::make_shared<float>(one.scale)});
  }
  return adapters;
}

class OneDevice final : public ModelPlacement {
 public:
  void load(const PlacementLoad& load, LoadedModel& loaded) const override {
    llm::LoadModelOptions options = load.options;
    loaded.stream = streaming::plan_stream(load.checkpoint, load.needs, load.wanted, loaded.device, loaded.facts);
    loaded.adapters = load_adapters(load.wanted.adapters);
    loaded.observer = load.wanted.observer;
    options.streamed = loaded.stream.get();
    options.adapters = loaded.adapters;
    options.observer = loaded.observer;
    loaded.model = llm::load_model(load.checkpoint, loaded.device, options);
  }
  std::unique_ptr<ModelPass> make_pass(const PlacementPass& p) const override {
    if (p.loaded.stream != nullptr)
      return std::make_unique<streaming::StreamedPass>(p.loaded, p.cache, p.evaluate, p.decodes);
    return std::make_unique<ResidentPass>(p.loaded, p.cache, p.plans, p.evaluate, p.decodes);
  }
};

class OverProcesses final : public ModelPlacement {
 public:
  void load(const PlacementLoad& load, LoadedModel& loaded) const override {
    processes::load_part(load.checkpoint, load.wanted, load.needs, load.options, loaded);
  }
  std::unique_ptr<ModelPass> make_pass(const PlacementPass& p) const override {
    return std::make_unique<processes::ProcessPass>(p.loaded, p.cache, p.evaluate);
  }
};

class OverLayers final : public ModelPlacement {
 public:
  void take_devices(std::span<const std::shared_ptr<Device>> devices, LoadedModel& loaded) const override {
    for (const std::shared_ptr<Device>& device : devices)
      loaded.stages.push_back({.device = device, .layers = {}, .model = nullptr});
  }
  void load(const PlacementLoad& load, LoadedModel& loaded) const override {
    staged::load_stages(load.checkpoint, load.wanted, load.needs, load.options, loaded);
  }
  std::unique_ptr<ModelPass> make_pass(const PlacementPass& p) const override {
    return std::make_unique<staged::StagedPass>(p.loaded, p.cache, p.evaluate);
  }
  std::string describe(const LoadedModel& loaded) const override { return staged::describe(loaded.stages); }
  std::vector<std::shared_ptr<Device>> layer_devices(const LoadedModel& loaded) const override {
    std::vector<std::shared_ptr<Device>> all = ModelPlacement::layer_devices(loaded);
    for (const ModelStage& stage : loaded.stages) {
      for (int64_t i = stage.layers.first; i < stage.layers.end; ++i) all[static_cast<size_t>(i)] = stage.device;
    }
    return all;
  }
};

// The cache has all layers of each rank, in the order of the ranks.
class OverTensors final : public ModelPlacement {
 public:
  void take_devices(std::span<const std::shared_ptr<Device>> devices, LoadedModel& loaded) const override {
    for (const std::shared_ptr<Device>& device : devices)
      loaded.ranks.push_back({.device = device, .shard = nullptr, .model = nullptr});
  }
  void load(const PlacementLoad& load, LoadedModel& loaded) const override {
    sharded::load_ranks(load.checkpoint, load.wanted, load.options, loaded);
  }
  std::unique_ptr<ModelPass> make_pass(const PlacementPass& p) const override {
    return std::make_unique<sharded::ShardedPass>(p.loaded, p.cache, p.evaluate);
  }
  std::string describe(const LoadedModel& loaded) const override { return sharded::describe(loaded.ranks); }
  std::vector<nn::CacheLayer> cache_layers(const LoadedModel& loaded) const override {
    std::vector<nn::CacheLayer> all;
    for (const ModelRank& rank : loaded.ranks) {
      const std::vector<nn::CacheLayer> layers = rank.model->cache_spec();
      all.insert(all.end(), layers.begin(), layers.end());
    }
    return all;
  }
  std::vector<std::shared_ptr<Device>> layer_devices(const LoadedModel& loaded) const override {
    std::vector<std::shared_ptr<Device>> all;
    for (const ModelRank& rank : loaded.ranks) all.insert(all.end(), rank.model->cache_spec().size(), rank.device);
    return all;
  }
};

}  // namespace

std::string ModelPlacement::describe(const LoadedModel& loaded) const { return loaded.device->facts().name; }

std::vector<nn::CacheLayer> ModelPlacement::cache_layers(const LoadedModel& loaded) const {
  return loaded.model->cache_spec();
}

std::vector<std::shared_ptr<Device>> ModelPlacement::layer_devices(const LoadedModel& loaded) const {
  return std::vector<std::shared_ptr<Device>>(loaded.model->cache_spec().size(), loaded.device);
}

// The first kind that applies.
const ModelPlacement& placement_of(const LoadOptions& options, size_t devices) {
  static const OneDevice one;
  static const OverProcesses processes;
  static const OverLayers layers;
  static const OverTensors tensors;
  struct Kind {
    bool applies;
    const ModelPlacement& placement;
  };
  const Kind kinds[] = {
      {options.over_processes, processes},
      {devices < 2, one},
      {options.split == Split::kTensor, tensors},
      {true, layers},
  };
  return std::ranges::find_if(kinds, &Kind::applies)->placement;
}

}  // namespace gabbro
