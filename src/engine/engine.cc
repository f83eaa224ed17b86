#include "gabbro/engine/engine.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/loading.h"
#include "src/engine/model_needs.h"
#include "src/engine/model_placement.h"
#include "src/engine/text_to_text.h"
#include "src/models/llm/text_rotations.h"

namespace gabbro {
namespace {

// Warns if a cache that grows on demand cannot grow to the whole context.
void warn_of_memory(const Device& device, const nn::KvCacheConfig& cache, CacheSize size, ModelFacts& facts) {
  if (!device.counts_memory()) return;
  const uint64_t used = device.memory(abi::MemoryKind::kDevice).reserved, all = plannable_memory(device.facts());
  const uint64_t left = all > used ? all - used : 0;
  const auto bytes_of = [&](int64_t context) {
    size.context = context;
    nn::KvCacheConfig config = cache_config(cache.layers, cache.dtype, size);
    return static_cast<uint64_t>(config.bytes() - config.slots * config.state_bytes());  // states have memory already
  };
  const uint64_t cache_bytes = bytes_of(facts.context);
  if (cache_bytes <= left) return;
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  facts.warnings.push_back(
      fmt::format("a context of {} tokens needs {} MiB of cache, but {} MiB are free on {}: --ctx {} fits",
                  facts.context, cache_bytes / kMiB, left / kMiB, device.facts().id,
                  longest_context(facts.context, [&](int64_t context) { return bytes_of(context) <= left; })));
}

void describe_device(const Device& device, const LoadOptions& options, ModelFacts& facts) {
  facts.device_id = device.facts().id;
  facts.device_name = device.facts().name;
  if (const auto tuning = device.tuning()) facts.device_note = tuning->problem;
  facts.threads = options.threads > 0 ? options.threads : device.facts().compute_units;
}

void describe_devices(const LoadedModel& loaded, ModelFacts& facts) {
  const std::vector<std::shared_ptr<Device>> devices = loaded.devices();
  if (!loaded.split_note.empty()) facts.device_note += (facts.device_note.empty() ? "" : "; ") + loaded.split_note;
  if (devices.size() == 1) return;
  facts.device_id.clear();
  for (const std::shared_ptr<Device>& device : devices)
    facts.device_id += (facts.device_id.empty() ? "" : "+") + std::string(device->facts().id);
  facts.device_name = loaded.placement->describe(loaded);
}

}  // namespace

int64_t LoadedModel::rotation_of(int64_t length) const {
  const llm::TextRotations* const rotations = model->rotations();
  return rotations != nullptr ? rotations->of(length) : 0;
}

std::vector<std::shared_ptr<Device>> LoadedModel::devices() const {
  std::vector<std::shared_ptr<Device>> all;
  for (const ModelStage& stage : stages) all.push_back(stage.device);
  for (const ModelRank& rank : ranks) all.push_back(rank.device);
  return all.empty() ? std::vector{device} : all;
}

std::vector<std::shared_ptr<Device>> LoadedModel::step_devices() const {
  std::vector<std::shared_ptr<Device>> all = devices();
  std::ranges::stable_partition(all, [&](const auto& one) { return one != output_device(); });
  return all;
}

void LoadedModel::set_rotation(int64_t rotation) const {
  model->set_rotation(rotation);
  for (const ModelStage& stage : stages) stage.model->set_rotation(rotation);
  for (const ModelRank& rank : ranks) rank.model->set_rotation(rotation);
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

const ModelFacts& Engine::facts() const { return state_->loaded.facts; }

const text::Tokenizer& Engine::tokenizer() const {
  if (state_->loaded.tokenizer == nullptr)
    throw bad_input("{}: {}", state_->loaded.facts.name, state_->loaded.no_tokenizer);
  return *state_->loaded.tokenizer;
}

const SamplingDefaults& Engine::sampling_defaults() const { return state_->loaded.sampling; }

const text::ChatTemplate* Engine::chat_template(bool with_tools) const {
  return state_->loaded.chat_templates.get(with_tools);
}

uint64_t Engine::kv_bytes_read(int64_t tokens) const {
  return static_cast<uint64_t>(state_->cache.config().bytes_read(tokens));
}
std::optional<uint64_t> Engine::memory_peak() const {
  uint64_t bytes = 0;
  for (const std::shared_ptr<Device>& device : state_->loaded.devices()) {
    if (!device->counts_memory()) return std::nullopt;
    bytes += device->memory(abi::MemoryKind::kDevice).reserved_peak;
  }
  return bytes;
}

StreamingWork Engine::streaming_work() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pass->work();
}

std::vector<AdapterOption> Engine::adapters() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<AdapterOption> all;
  for (const llm::ScaledAdapter& one : state_->loaded.adapters) all.push_back({one.adapter->path(), *one.scale});
  return all;
}

void Engine::set_adapter_scales(std::span<const float> scales) {
  const std::lock_guard lock(state_->mutex);
  if (scales.size() != state_->loaded.adapters.size())
    throw bad_input("{} scales for {} adapters", scales.size(), state_->loaded.adapters.size());
  for (const float scale : scales) {
    if (!std::isfinite(scale)) throw bad_input("an adapter's scale is not a number");
  }
  for (size_t i = 0; i < scales.size(); ++i) *state_->loaded.adapters[i].scale = scales[i];
  state_->plans.clear();  // they hold the former scales
  state_->cache.forget_names();
}

// The cache that the context needs, and the facts of it.
void Engine::State::make_cache() {
  ModelFacts& facts = loaded.facts;
  const CacheSize size = {.context = facts.context, .sequences = facts.sequences, .chunk = pass->prompt_chunk()};
  const ModelPlacement& placement = *loaded.placement;
  cache.make(placement.layer_devices(loaded), cache_config(placement.cache_layers(loaded), facts.kv_type, size),
             facts.context, loaded.ranks.size());
  const nn::KvCacheConfig& config = cache.config();
  facts.cache_bytes = static_cast<uint64_t>(config.bytes());
  facts.state_bytes = static_cast<uint64_t>(config.state_bytes());
  facts.kv_bytes_per_token = static_cast<uint64_t>(config.bytes_per_token());
  if (cache.memory().is_by_need() && loaded.devices().size() == 1) warn_of_memory(*loaded.device, config, size, facts);
}

std::shared_ptr<Engine> Engine::load(const std::string& path, const LoadOptions& options) {
  return load(Checkpoint::open(path), options, nullptr);
}

std::shared_ptr<Engine> Engine::load(const Checkpoint& checkpoint, const LoadOptions& options,
                                     std::shared_ptr<Device> device) try {
  auto state = std::make_unique<State>();
  LoadedModel& loaded = state->loaded;
  loaded.device = std::move(device);
  if (encoder::has_t5_decoder(checkpoint)) {
    load_text_to_text(checkpoint, options, loaded);
    state->pass = make_text_pass(loaded, state->cache);
  } else {
    load_language_model(checkpoint, options, loaded);
    state->pass = make_pass(loaded, state->cache, state->plans);
  }
  state->make_cache();
  describe_device(*loaded.device, options, loaded.facts);
  describe_devices(loaded, loaded.facts);
  // A limited memory has no room for buffers of loading that a pool keeps.
  if (loaded.facts.streaming.memory > 0) loaded.device->trim(abi::MemoryKind::kDevice);
  state->pass->start(loaded.facts);
  checkpoint.require_unchanged();
  loaded.files.add(checkpoint.files());
  return std::shared_ptr<Engine>(new Engine(std::move(state)));
} catch (const Error&) {
  checkpoint.require_unchanged();  // then this is the reason
  throw;
}

}  // namespace gabbro
