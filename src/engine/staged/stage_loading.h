// Loading of a model whose layers are on several devices. Private to src/engine.
#pragma once

#include <utility>

#include "src/engine/loaded_model.h"
#include "src/engine/model_needs.h"
#include "src/engine/staged/layer_split.h"
#include "src/models/llm/model.h"

namespace gabbro::staged {

// Opens the devices of the options. Throws bad_input for one that is there twice, and kNoDevice.
std::vector<std::shared_ptr<Device>> open_devices(const LoadOptions& options);

// Throws bad_input for an option that a model on several devices cannot have, and for another number of shares.
void require_splittable(const LoadOptions& options, size_t devices);

// The progress of a model that is loaded onto one device after another, in bytes so far and at least that many in all.
class ProgressOverDevices {
 public:
  explicit ProgressOverDevices(llm::LoadProgress progress) : progress_(std::move(progress)) {}
  void show(uint64_t done, uint64_t total);  // of the device that is loaded
  void next_device() { before_ += done_; }

 private:
  llm::LoadProgress progress_;
  uint64_t before_ = 0, done_ = 0;
};

// Loads the stages of loaded.stages, whose devices are open and whose ranges this chooses, with the options of a model
// on one device. Throws bad_input for what a split model cannot have, and OutOfMemory where it does not fit.
void load_stages(const Checkpoint& checkpoint, const LoadOptions& wanted, const ModelNeeds& needs,
                 llm::LoadModelOptions options, LoadedModel& loaded);

// The cache of each layer, in bytes.
std::vector<uint64_t> cache_sizes(const ModelNeeds& needs, DType kv_type, const CacheSize& size);

// A device before it is opened.
struct SplitDevice {
  abi::DeviceFacts facts;
  uint64_t memory_free = 0;  // 0: unknown
};
// Speeds by shares; without any by the published bandwidth, if all devices have one; else equal. `scratch`: bytes that
// each device needs besides weights and cache.
std::vector<StageDevice> stage_devices(std::span<const SplitDevice> devices, std::span<const double> shares,
                                       uint64_t scratch);

// "Radeon RX 7900 XTX (layers 0-15), Radeon RX 7900 XTX (layers 16-31)"
std::string describe(std::span<const ModelStage> stages);

}  // namespace gabbro::staged
