#include "src/engine/staged/stage_loading.h"

#include <algorithm>
#include <set>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/published_bandwidth.h"
#include "src/engine/staged/layer_split.h"
#include "src/models/llm/registry.h"

namespace gabbro::staged {

void require_splittable(const LoadOptions& options, size_t devices) {
  const auto refuse = [](const char* what, const char* hint) {
    throw Error(ErrorCode::kBadInput, fmt::format("a model that is split over devices has no {}", what), hint);
  };
  if (options.memory > 0) refuse("weights that are streamed", "give --devices or --memory");
  if (!options.adapters.empty()) refuse("adapters", "gabbro convert --lora merges them into a file");
  if (options.observer != nullptr) refuse("observer of its inputs", "an importance matrix is computed on one device");
  if (!options.shares.empty() && options.shares.size() != devices)
    throw bad_input("--tensor-split: {} shares for {} devices", options.shares.size(), devices);
}

std::vector<uint64_t> cache_sizes(const ModelNeeds& needs, DType kv_type, const CacheSize& size) {
  const nn::KvCacheConfig config = cache_config(needs.cache, kv_type, size);
  std::vector<uint64_t> bytes;
  for (const nn::CacheLayer& layer : config.layers) {
    const nn::KvCacheConfig states{.layers = {layer}};
    const int64_t page_bytes = nn::KvCacheConfig::kPageTokens * config.bytes_per_token(layer);
    bytes.push_back(
        static_cast<uint64_t>(config.groups[layer.group].pages * page_bytes + config.slots * states.state_bytes()));
  }
  return bytes;
}

std::vector<StageDevice> stage_devices(std::span<const SplitDevice> devices, std::span<const double> shares,
                                       uint64_t scratch) {
  std::vector<StageDevice> stages;
  bool all_known = true;
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto& [facts, free] = devices[i];
    StageDevice stage{.name = facts.id};
    stage.memory = free > 0 ? std::max<uint64_t>(free, scratch + 1) - scratch : 0;
    if (!shares.empty()) {
      stage.speed = shares[i];
    } else if (const auto known = published_bandwidth(facts.architecture, facts.name, facts.memory_total)) {
      stage.speed = known->bytes_per_second;
    } else {
      all_known = false;
    }
    stages.push_back(stage);
  }
  if (!all_known) {
    for (StageDevice& stage : stages) stage.speed = 1;
  }
  return stages;
}

std::vector<std::shared_ptr<Device>> open_devices(const LoadOptions& options) {
  std::vector<std::shared_ptr<Device>> devices;
  std::set<std::string> names;
  for (const std::string& name : options.devices) {
    devices.push_back(open_device(name, {.threads = options.threads}));
    if (!names.insert(devices.back()->facts().id).second)
      throw bad_input("--devices: {} is there twice", devices.back()->facts().id);
  }
  return devices;
}

void ProgressOverDevices::show(uint64_t done, uint64_t total) {
  done_ = done;
  progress_(before_ + done, std::max(total, before_ + done));
}

void load_stages(const Checkpoint& checkpoint, const LoadOptions& wanted, const ModelNeeds& needs,
                 llm::LoadModelOptions options, LoadedModel& loaded) {
  require_splittable(wanted, loaded.stages.size());
  std::vector<SplitDevice> devices;
  for (const ModelStage& stage : loaded.stages) devices.push_back({stage.device->facts(), free_memory(*stage.device)});
  const CacheSize size = {.context = loaded.facts.context,
                          .sequences = loaded.facts.sequences,
                          .chunk = prefill_chunk(loaded.device->facts()) * std::ssize(loaded.stages)};
  const std::vector<llm::LayerRange> ranges = split_layers(
      sizes_of(checkpoint, llm::family_of(checkpoint).names, cache_sizes(needs, loaded.facts.kv_type, size)),
      stage_devices(devices, wanted.shares, scratch_bytes(needs.shape, loaded.facts.context)));
  ProgressOverDevices progress(options.progress);
  options.progress = [&](uint64_t done, uint64_t total) { progress.show(done, total); };
  for (size_t i = 0; i < loaded.stages.size(); ++i) {
    ModelStage& stage = loaded.stages[i];
    stage.layers = ranges[i];
    options.layers = &stage.layers;
    stage.model = llm::load_model(checkpoint, stage.device, options);
    if (!stage.model->has_stages()) {
      throw bad_input("{}: models of architecture {} cannot be split by layers", checkpoint.path(),
                      loaded.facts.architecture);
    }
    progress.next_device();
  }
  loaded.model = loaded.stages.front().model;
}

std::string describe(std::span<const ModelStage> stages) {
  std::string text;
  for (const ModelStage& stage : stages) {
    text += fmt::format("{}{} (layers {}-{})", text.empty() ? "" : ", ", stage.device->facts().name, stage.layers.first,
                        stage.layers.end - 1);
  }
  return text;
}

}  // namespace gabbro::staged
