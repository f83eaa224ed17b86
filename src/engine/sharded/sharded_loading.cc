#include "src/engine/sharded/sharded_loading.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"
#include "src/engine/sharded/rank_sums.h"
#include "src/engine/staged/stage_loading.h"

namespace gabbro::sharded {
namespace {

std::vector<double> shares_of(const LoadedModel& loaded, const LoadOptions& wanted) {
  std::vector<staged::SplitDevice> devices;
  for (const ModelRank& rank : loaded.ranks) devices.push_back({.facts = rank.device->facts()});
  std::vector<double> shares;
  for (const staged::StageDevice& device : staged::stage_devices(devices, wanted.shares, 0))
    shares.push_back(device.speed);
  return shares;
}

}  // namespace

void load_ranks(const Checkpoint& checkpoint, const LoadOptions& wanted, llm::LoadModelOptions options,
                LoadedModel& loaded) {
  staged::require_splittable(wanted, loaded.ranks.size());
  loaded.sums = std::make_shared<RankSums>(loaded.devices());
  const std::vector<double> shares = shares_of(loaded, wanted);
  staged::ProgressOverDevices progress(options.progress);
  options.progress = [&](uint64_t done, uint64_t total) { progress.show(done, total); };
  for (size_t i = 0; i < loaded.ranks.size(); ++i) {
    ModelRank& rank = loaded.ranks[i];
    rank.shard = std::make_unique<const llm::TensorShard>(
        llm::TensorShard{.rank = i, .shares = shares, .sum = loaded.sums->of(i)});
    options.shard = rank.shard.get();
    rank.model = llm::load_model(checkpoint, rank.device, options);
    if (!rank.model->has_shards()) {
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: models of architecture {} cannot be split by tensors", checkpoint.path(),
                              loaded.facts.architecture),
                  "one device runs them");
    }
    progress.next_device();
  }
  loaded.model = loaded.ranks.front().model;
}

std::vector<PartSizes> part_sizes(const Checkpoint& checkpoint, std::span<const double> shares, DType kv_type,
                                  const CacheSize& size) {
  std::vector<PartSizes> parts;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const llm::TensorShard shard{.rank = rank, .shares = {shares.begin(), shares.end()}, .sum = nullptr};
    const llm::ShardNeeds needs = llm::needs_of_shard(checkpoint, shard, size.context);
    const auto cache = static_cast<uint64_t>(cache_config(needs.cache, kv_type, size).bytes());
    parts.push_back({.weights = needs.weight_bytes, .cache = cache});
  }
  return parts;
}

std::string describe(std::span<const ModelRank> ranks) {
  const std::vector<double>& shares = ranks.front().shard->shares;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::string text;
  for (const ModelRank& rank : ranks) {
    text += fmt::format("{}{} ({:.0f} % of each tensor)", text.empty() ? "" : ", ", rank.device->facts().name,
                        100 * shares[rank.shard->rank] / all);
  }
  return text;
}

}  // namespace gabbro::sharded
