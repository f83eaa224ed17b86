// Loading: a file becomes an Engine.
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/file_identity.h"
#include "src/base/round_up.h"
#include "src/engine/conversion.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/engine/model_text.h"
#include "src/engine/runner.h"
#include "src/engine/streaming/engine_streaming.h"
#include "src/engine/text_to_text.h"
#include "src/models/config/config_reader.h"
#include "src/models/llm/registry.h"
#include "src/models/llm/text_rotations.h"

namespace gabbro {
namespace {

ModelFacts describe(const Checkpoint& checkpoint, const ModelNeeds& needs) {
  ModelFacts facts;
  facts.name = needs.name;
  facts.architecture = llm::architecture_of(checkpoint);
  facts.quantization = needs.quantization;
  facts.parameters = needs.parameters;
  facts.vocabulary = needs.shape.vocabulary;
  facts.layers = needs.shape.layers;
  facts.context_trained = needs.shape.context_trained;
  facts.file_bytes = checkpoint.file_bytes();
  facts.weight_bytes = needs.weight_bytes;
  facts.bytes_per_token = needs.bytes_per_token;
  return facts;
}

// Warns where a cache that comes by need will not come whole.
void warn_of_memory(const Device& device, const nn::KvCacheConfig& cache, CacheSize size, ModelFacts& facts) {
  if (!device.counts_memory()) return;
  const uint64_t used = device.memory(abi::MemoryKind::kDevice).reserved, all = plannable_memory(device.facts());
  const uint64_t left = all > used ? all - used : 0;
  const auto bytes_of = [&](int64_t context) {
    size.context = context;
    nn::KvCacheConfig config = cache_config(cache.layers, cache.dtype, size);
    return static_cast<uint64_t>(config.bytes() - config.slots * config.state_bytes());  // states are there
  };
  const uint64_t cache_bytes = bytes_of(facts.context);
  if (cache_bytes <= left) return;
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  facts.warnings.push_back(fmt::format(
      "the cache of the whole context of {} tokens takes {} MiB, of which {} MiB are free on {}: --ctx {} fits",
      facts.context, cache_bytes / kMiB, left / kMiB, device.facts().id,
      longest_context(facts.context, [&](int64_t context) { return bytes_of(context) <= left; })));
}

// Null for "".
const FileType* type_to_quantize(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const FileType* type = find_file_type(std::string_view(name))) {
    if (!is_quantized(type->base)) throw bad_input("--quantize: {} has no blocks", type->name);
    return type;
  }
  std::string known;
  for (const FileType& type : file_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--quantize: '{}' is not known", name), "known: " + known);
}

}  // namespace

namespace {

void add_warnings(const Checkpoint& checkpoint, const text::Tokenizer* tokenizer, const SamplingDefaults& sampling,
                  ModelFacts& facts) {
  for (const std::string& note : checkpoint.notes()) facts.warnings.push_back(checkpoint.path() + ": " + note);
  if (tokenizer != nullptr) {
    for (const std::string& warning : tokenizer->warnings())
      facts.warnings.push_back(checkpoint.path() + ": " + warning);
  }
  facts.warnings.insert(facts.warnings.end(), sampling.warnings.begin(), sampling.warnings.end());
}

void check_vocabulary(const Checkpoint& checkpoint, const text::Tokenizer* tokenizer, int64_t rows) {
  if (tokenizer == nullptr || tokenizer->size() <= rows) return;
  throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", checkpoint.path(), tokenizer->size(),
                  rows);
}

void describe_device(const Device& device, const LoadOptions& options, ModelFacts& facts) {
  facts.device_id = device.facts().id;
  facts.device_name = device.facts().name;
  if (const auto tuning = device.tuning()) facts.device_note = tuning->problem;
  facts.threads = options.threads > 0 ? options.threads : device.facts().compute_units;
}

std::vector<llm::ScaledAdapter> load_adapters(const std::vector<AdapterOption>& options) {
  std::vector<llm::ScaledAdapter> adapters;
  for (const AdapterOption& one : options) {
    if (!std::isfinite(one.scale)) throw bad_input("{}: the adapter's scale is not a number", one.path);
    adapters.push_back(
        {std::make_shared<const llm::Adapter>(llm::Adapter::open(one.path)), std::make_shared<float>(one.scale)});
  }
  return adapters;
}

}  // namespace

namespace {

// Files and settings by which the same tokens have the same keys and values.
std::string identity_of(const Checkpoint& checkpoint, const LoadOptions& options) {
  std::string text = fmt::format("{}; quantize '{}'", fmt::join(checkpoint.file_identities(), " "), options.quantize);
  for (const AdapterOption& adapter : options.adapters) {
    text += fmt::format("; {} {} {}", adapter.path, file_identity(adapter.path), adapter.scale);
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(adapter.path, error))
      text += " " + file_identity(file.path());
  }
  return text;
}

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

const ModelFacts& Engine::facts() const { return state_->facts; }

const text::Tokenizer& Engine::tokenizer() const {
  if (state_->tokenizer == nullptr) throw bad_input("{}: {}", state_->facts.name, state_->no_tokenizer);
  return *state_->tokenizer;
}

const SamplingDefaults& Engine::sampling_defaults() const { return state_->sampling; }

const text::ChatTemplate* Engine::chat_template(bool with_tools) const {
  return state_->chat_templates.get(with_tools);
}

uint64_t Engine::kv_bytes_read(int64_t tokens) const {
  return static_cast<uint64_t>(state_->cache->config().bytes_read(tokens));
}
std::optional<uint64_t> Engine::memory_peak() const {
  if (!state_->device->counts_memory()) return std::nullopt;
  return state_->device->memory(abi::MemoryKind::kDevice).reserved_peak;
}

StreamingWork Engine::streaming_work() const {
  const std::lock_guard lock(state_->mutex);
  StreamingWork work = state_->streaming_work;
  if (state_->stream == nullptr) return work;
  const streaming::StreamFacts facts = state_->stream->facts();
  work.waited = facts.waited + facts.experts.waited;
  work.expert_hits = facts.experts.hits;
  work.expert_misses = facts.experts.misses;
  work.experts_early = facts.experts.early;
  work.experts_foreseen = facts.experts.foreseen;
  work.expert_bytes = facts.experts.bytes;
  return work;
}

std::vector<AdapterOption> Engine::adapters() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<AdapterOption> all;
  for (const llm::ScaledAdapter& one : state_->adapters) all.push_back({one.adapter->path(), *one.scale});
  return all;
}

void Engine::set_adapter_scales(std::span<const float> scales) {
  const std::lock_guard lock(state_->mutex);
  if (scales.size() != state_->adapters.size())
    throw bad_input("{} scales for {} adapters", scales.size(), state_->adapters.size());
  for (const float scale : scales) {
    if (!std::isfinite(scale)) throw bad_input("an adapter's scale is not a number");
  }
  for (size_t i = 0; i < scales.size(); ++i) *state_->adapters[i].scale = scales[i];
  state_->queued = {};
  state_->decode.clear();  // their plans hold the former scales
  for (PagePool& pool : state_->pools) pool.remove_names();
  state_->prefixes.clear();
  state_->store.reset();  // its pages are those of the former scales
}

int64_t Engine::State::prompt_chunk() const {
  return stream != nullptr ? streaming::kStreamedChunk : prefill_chunk(device->facts());
}

const std::shared_ptr<Prefix>& Engine::State::prefixes_of(int64_t rotation, const std::string& tree) {
  constexpr size_t kMany = 1024;  // dynamic NTK has one for each length, and each key may have its own
  if (prefixes.size() > kMany) std::erase_if(prefixes, [](const auto& root) { return root.second.use_count() == 1; });
  std::shared_ptr<Prefix>& root = prefixes[{rotation, tree}];
  if (root == nullptr) root = Prefix::empty();
  return root;
}

int64_t Engine::State::rotation_of(int64_t length) const {
  const llm::TextRotations* const rotations = model != nullptr ? model->rotations() : nullptr;
  return rotations != nullptr ? rotations->of(length) : 0;
}

int64_t Engine::State::pages_per_sequence() const {
  return round_up(facts.context, PagePool::kTokens) / PagePool::kTokens;
}

DecodeStep& Engine::State::decode_step(int64_t sequences) {
  DecodeStep& step = decode[sequences];
  if (!step.is_made()) step.make(device, sequences, pages_per_sequence(), pools.size(), states.has_value());
  if (stream == nullptr && !step.run)
    step.run.emplace([this, inputs = step.inputs()] { return std::vector{model->forward(inputs, *cache)}; });
  return step;
}

Compiled& Engine::State::greedy_step(DecodeStep& step) {
  if (step.run_greedy) return *step.run_greedy;
  return step.run_greedy.emplace([this, inputs = step.inputs()] {
    const Tensor logits = model->forward(inputs, *cache);
    const Tensor ids = argmax(logits, -1, true);
    return std::vector{logits, finite_ids(logits, ids), ids};
  });
}

Compiled& Engine::State::sampled_step(DecodeStep& step, bool has_edits) {
  std::optional<Compiled>& plan = step.run_sampled[has_edits ? 1 : 0];
  if (plan) return *plan;
  return plan.emplace([this, inputs = step.inputs(), rows = step.row_inputs().inputs(has_edits)] {
    const Tensor logits = model->forward(inputs, *cache);
    const Tensor tokens = sample_tokens(logits, rows).tokens;
    return std::vector{logits, tokens, maximum(tokens, scalar(tokens.device(), 0, DType::i32))};
  });
}

std::shared_ptr<Engine> Engine::load(const std::string& path, const LoadOptions& options) {
  return load(Checkpoint::open(path), options, nullptr);
}

std::shared_ptr<Engine> Engine::load(const Checkpoint& checkpoint, const LoadOptions& options,
                                     std::shared_ptr<Device> device) try {
  const bool answers_texts = encoder::has_t5_decoder(checkpoint);
  if (has_encoder_alone(checkpoint) && !answers_texts) {
    throw Error(ErrorCode::kBadInput, checkpoint.path() + ": the model is a text encoder, which writes no text",
                "gabbro embed, or gabbro rerank");
  }
  auto state = std::make_unique<State>();
  state->tokenizer = read_tokenizer_if_any(checkpoint, state->no_tokenizer);
  state->chat_templates = ModelTemplates(checkpoint, options.chat_template);
  state->device = device != nullptr ? device : open_device(options.device, {.threads = options.threads});
  if (answers_texts) {
    TextToText loaded = load_text_to_text(checkpoint, options, state->device);
    state->text_to_text = std::move(loaded.model);
    state->facts = std::move(loaded.facts);
    state->sampling = read_sampling_defaults(checkpoint);
    add_warnings(checkpoint, state->tokenizer.get(), state->sampling, state->facts);
    check_vocabulary(checkpoint, state->tokenizer.get(), state->facts.vocabulary);
    describe_device(*state->device, options, state->facts);
    checkpoint.require_unchanged();
    state->files.add(checkpoint.files());
    return std::shared_ptr<Engine>(new Engine(std::move(state)));
  }
  state->identity = identity_of(checkpoint, options);
  const FileType* const quantize = type_to_quantize(options.quantize);
  const ModelNeeds needs = quantize != nullptr ? needs_of(llm::plan_of(checkpoint), *quantize) : needs_of(checkpoint);
  const DType kv_type = options.kv_type.value_or(DType::f16);
  nn::require_kv_type(kv_type, needs.cache);
  const llm::ModelShape& shape = needs.shape;
  check_vocabulary(checkpoint, state->tokenizer.get(), shape.vocabulary);

  ModelFacts& facts = state->facts;
  facts = describe(checkpoint, needs);
  facts.context = context_of(shape, options.context);
  facts.kv_type = kv_type;
  facts.sequences = std::max<int64_t>(1, options.sequences);
  state->sampling = read_sampling_defaults(checkpoint);
  add_warnings(checkpoint, state->tokenizer.get(), state->sampling, facts);
  if (const std::string note = llm::unused_layers(checkpoint, shape); !note.empty())
    facts.warnings.push_back(checkpoint.path() + ": " + note);
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  state->stream = streaming::plan_stream(checkpoint, needs, options, state->device, facts);
  if (state->stream != nullptr && quantize != nullptr) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: weights that are streamed are not quantized", checkpoint.path()),
                "gabbro convert makes a quantized file, which --memory then streams");
  }
  state->adapters = load_adapters(options.adapters);
  if (state->stream != nullptr && !state->adapters.empty()) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: adapters are not applied to weights that are streamed", checkpoint.path()),
                "gabbro convert --lora merges them into a file, which --memory then streams");
  }
  state->observer = options.observer;
  state->model = llm::load_model(checkpoint, state->device,
                                 {.context = facts.context,
                                  .check_weights = options.check_weights,
                                  .quantize = quantize,
                                  .progress = progress,
                                  .streamed = state->stream.get(),
                                  .adapters = state->adapters,
                                  .observer = options.observer});
  if (state->stream != nullptr && !state->model->has_stages()) throw streaming::does_not_stream(facts);
  const CacheSize size = {.context = facts.context, .sequences = facts.sequences, .chunk = state->prompt_chunk()};
  state->cache.emplace(state->device, cache_config(state->model->cache_spec(), kv_type, size));
  for (const nn::PageGroup& group : state->cache->config().groups) state->pools.emplace_back(group.pages);
  facts.cache_bytes = static_cast<uint64_t>(state->cache->config().bytes());
  facts.state_bytes = static_cast<uint64_t>(state->cache->config().state_bytes());
  if (facts.state_bytes > 0) state->states.emplace(facts.sequences);
  facts.kv_bytes_per_token = static_cast<uint64_t>(state->cache->config().bytes_per_token());
  if (state->cache->is_by_need()) warn_of_memory(*state->device, state->cache->config(), size, facts);
  describe_device(*state->device, options, facts);
  // A limited memory has no room for buffers of loading that a pool keeps.
  if (facts.streaming.memory > 0) state->device->trim(abi::MemoryKind::kDevice);
  if (state->stream != nullptr) streaming::start_stream(*state->stream, facts);
  checkpoint.require_unchanged();
  state->files.add(checkpoint.files());

  return std::shared_ptr<Engine>(new Engine(std::move(state)));
} catch (const Error&) {
  checkpoint.require_unchanged();  // then this is the reason
  throw;
}

}  // namespace gabbro
