#include "src/engine/split_facts.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/published_bandwidth.h"
#include "src/engine/forecast.h"
#include "src/engine/sharded/link_times.h"
#include "src/engine/sharded/sharded_loading.h"
#include "src/engine/staged/layer_split.h"
#include "src/engine/staged/stage_loading.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

// The facts that all splits share.
struct Wanted {
  const Checkpoint& checkpoint;
  const LoadOptions& options;
  const ModelNeeds& needs;
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<staged::SplitDevice> known;
  DType kv_type;
  int64_t context;

  CacheSize cache_size(int64_t chunks = 1) const {
    return {.context = context,
            .sequences = std::max<int64_t>(1, options.sequences),
            .chunk = prefill_chunk(devices.front()->facts()) * chunks};
  }
};

std::string too_small(const std::string& name, uint64_t bytes, uint64_t free) {
  return fmt::format("{} MiB are needed on {}, and {} MiB are free", bytes >> 20, name, free >> 20);
}

// Why the devices cannot hold ranges of layers; empty: they can.
std::string problem_of_layers(const Wanted& w) {
  try {
    const CacheSize size = w.cache_size(std::ssize(w.devices));
    staged::split_layers(staged::sizes_of(w.checkpoint, llm::family_of(w.checkpoint).names,
                                          staged::cache_sizes(w.needs, w.kv_type, size)),
                         staged::stage_devices(w.known, w.options.shares, scratch_bytes(w.needs.shape, w.context)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string problem_of_tensors(const Wanted& w, std::span<const double> shares) {
  const uint64_t scratch = scratch_bytes(w.needs.shape, w.context);
  try {
    const std::vector<sharded::PartSizes> parts = sharded::part_sizes(w.checkpoint, shares, w.kv_type, w.cache_size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint64_t bytes = parts[i].weights + parts[i].cache + scratch, free = w.known[i].memory_free;
      if (free > 0 && bytes > free) return too_small(w.known[i].facts.id, bytes, free);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

SplitFacts facts_of(const Wanted& w) {
  SplitFacts facts{.devices = {},
                   .layers = w.needs.shape.layers,
                   .bytes_per_token = w.needs.bytes_per_token,
                   .no_layers = problem_of_layers(w),
                   .no_tensors = {},
                   .may_be_one = w.options.shares.empty()};
  const uint64_t bytes =
      w.needs.weight_bytes + kv_bytes(w.needs, w.kv_type, w.cache_size()) + scratch_bytes(w.needs.shape, w.context);
  std::vector<double> shares;
  for (const staged::StageDevice& device : staged::stage_devices(w.known, w.options.shares, 0))
    shares.push_back(device.speed);
  for (size_t i = 0; i < w.known.size(); ++i) {
    const auto& [device, free] = w.known[i];
    const auto published = published_bandwidth(device.architecture, device.name, device.memory_total);
    facts.devices.push_back({.name = device.id,
                             .bandwidth = published ? kShareOfPublished * published->bytes_per_second : 0,
                             .holds_all = free == 0 || bytes <= free,
                             .share = shares[i]});
  }
  facts.no_tensors = problem_of_tensors(w, shares);
  const sharded::LinkTimes links = sharded::measure_links(w.devices, w.needs.shape.embedding);
  facts.sum_seconds = links.sum;
  facts.hop_seconds = links.hop;
  return facts;
}

}  // namespace

LoadOptions with_chosen_split(const Checkpoint& checkpoint, const LoadOptions& options, const ModelNeeds& needs,
                              std::string& why) {
  staged::require_splittable(options, options.devices.size());
  Wanted wanted{.checkpoint = checkpoint,
                .options = options,
                .needs = needs,
                .devices = staged::open_devices(options),
                .known = {},
                .kv_type = options.kv_type.value_or(DType::f16),
                .context = context_of(needs.shape, options.context)};
  for (const std::shared_ptr<Device>& device : wanted.devices)
    wanted.known.push_back({device->facts(), free_memory(*device)});
  const SplitChoice choice = choose_split(facts_of(wanted));
  why = "split: " + choice.why;
  LoadOptions chosen = options;
  chosen.split = choice.way == SplitWay::kTensors ? Split::kTensor : Split::kLayers;
  if (choice.way == SplitWay::kOneDevice) chosen.devices = {options.devices[choice.device]};
  return chosen;
}

}  // namespace gabbro
