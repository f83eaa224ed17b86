#include "src/engine/processes/process_part.h"

#include "src/base/error.h"
#include "src/base/mpi/ranks.h"
#include "src/engine/loaded_model.h"
#include "src/engine/staged/stage_loading.h"
#include "src/models/llm/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::processes {
namespace {

// Through the host's memory.
class ProcessSum final : public llm::RankSum {
 public:
  Tensor operator()(const Tensor& partial, std::span<const Tensor> needed) override {
    std::vector<Tensor> values(needed.begin(), needed.end());
    const Tensor wide = cast(partial, DType::f32);
    values.push_back(wide);
    eval(values);
    std::vector<float> sum = to_host<float>(wide);
    mpi::Ranks::shared().sum(std::span<float>(sum));
    return cast(partial.device()->upload(DType::f32, partial.shape(), sum.data()), partial.dtype());
  }
};

struct Memory {
  uint64_t free;
};

// The ranges of all processes, which each computes from the same numbers.
std::vector<llm::LayerRange> ranges_of(const Checkpoint& checkpoint, const LoadOptions& wanted, const ModelNeeds& needs,
                                       const LoadedModel& loaded) {
  mpi::Ranks& ranks = mpi::Ranks::shared();
  const Memory own{free_memory(*loaded.device)};
  std::vector<Memory> all(ranks.size());
  ranks.all_gather(&own, all.data(), sizeof(Memory));
  const uint64_t scratch = scratch_bytes(needs.shape, loaded.facts.context);
  std::vector<staged::StageDevice> devices;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint64_t memory = all[i].free;
    devices.push_back({.name = ranks.name_of(i),
                       .speed = wanted.shares.empty() ? 1 : wanted.shares[i],
                       .memory = memory == 0 ? 0 : std::max(memory, scratch + 1) - scratch});
  }
  const CacheSize size = {.context = loaded.facts.context,
                          .sequences = loaded.facts.sequences,
                          .chunk = prefill_chunk(loaded.device->facts())};
  const std::vector<uint64_t> cache = staged::cache_sizes(needs, loaded.facts.kv_type, size);
  return staged::split_layers(staged::sizes_of(checkpoint, llm::family_of(checkpoint).names, cache), devices);
}

}  // namespace

void load_part(const Checkpoint& checkpoint, const LoadOptions& wanted, const ModelNeeds& needs,
               llm::LoadModelOptions options, LoadedModel& loaded) {
  mpi::Ranks& ranks = mpi::Ranks::shared();
  staged::require_splittable(wanted, ranks.size());
  const auto part = std::make_shared<ProcessPart>();
  const bool by_tensors = wanted.split == Split::kTensor;
  if (by_tensors) {
    part->shard = std::make_unique<const llm::TensorShard>(
        llm::TensorShard{.rank = ranks.rank(),
                         .shares = wanted.shares.empty() ? std::vector<double>(ranks.size(), 1) : wanted.shares,
                         .sum = std::make_shared<ProcessSum>()});
    options.shard = part->shard.get();
  } else {
    part->layers = ranges_of(checkpoint, wanted, needs, loaded)[ranks.rank()];
    options.layers = &part->layers;
  }
  loaded.model = llm::load_model(checkpoint, loaded.device, options);
  if (by_tensors ? !loaded.model->has_shards() : !loaded.model->has_stages()) {
    throw bad_input("{}: models of architecture {} cannot be split by {}", checkpoint.path(), loaded.facts.architecture,
                    by_tensors ? "tensors" : "layers");
  }
  loaded.process = part;
}

std::string describe(const ProcessPart& part) {
  const mpi::Ranks& ranks = mpi::Ranks::shared();
  const std::string share = part.shard != nullptr ? "a part of each tensor"
                                                  : fmt::format("layers {}-{}", part.layers.first, part.layers.end - 1);
  return fmt::format("rank {} of {} ({}), {}", ranks.rank(), ranks.size(), share, ranks.version());
}

}  // namespace gabbro::processes
