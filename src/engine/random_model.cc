#include "src/engine/random_model.h"

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"

namespace gabbro {
namespace {

constexpr uint64_t kSeed = 1;

std::string gib(uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

void require_memory(const llm::Blueprint& blueprint, const FileType& type, const LoadOptions& options,
                    const Device& device) {
  const ModelNeeds needs = needs_of(llm::plan_of(blueprint), type);
  const int64_t context = context_of(needs.shape, options.context);
  const DType kv_type = options.kv_type.value_or(DType::f16);
  nn::require_kv_type(kv_type, needs.cache);
  const uint64_t cache = kv_bytes(needs, kv_type, {.context = context, .chunk = prefill_chunk(device.facts())});
  const uint64_t scratch = scratch_bytes(needs.shape, context, prefill_chunk(device.facts()));
  const uint64_t free = free_memory(device);
  if (free == 0 || needs.weight_bytes + cache + scratch <= free) return;
  throw Error(ErrorCode::kNoDevice,
              fmt::format("{} in {} does not fit {}: {} of weights, {} of cache for {} tokens and {} of scratch, but "
                          "{} are free",
                          blueprint.name, type.name, device.facts().id, gib(needs.weight_bytes), gib(cache), context,
                          gib(scratch), gib(free)),
              "gabbro fit says what would");
}

}  // namespace

std::shared_ptr<Engine> load_random_model(const llm::Blueprint& blueprint, const FileType& type,
                                          const LoadOptions& options, std::shared_ptr<Device> device) {
  if (device == nullptr) device = open_device(options.device, {.threads = options.threads});
  require_memory(blueprint, type, options, *device);
  return Engine::load(llm::random_checkpoint(blueprint, type, kSeed), options, std::move(device));
}

}  // namespace gabbro
