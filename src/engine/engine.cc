// Loading: a file becomes an Engine.
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/engine/conversion.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/engine/model_text.h"
#include "src/models/llm/config_reader.h"

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

std::shared_future<std::unique_ptr<const text::ChatTemplate>> read_template_later(const Checkpoint& checkpoint) {
  using Template = std::unique_ptr<const text::ChatTemplate>;
  try {
    const auto parse = [](const std::optional<std::string>& source) {
      return source ? std::make_unique<const text::ChatTemplate>(*source) : Template();
    };
    return std::async(std::launch::deferred, parse, checkpoint.chat_template()).share();
  } catch (const Error&) {  // the field is no text
    std::promise<Template> failed;
    failed.set_exception(std::current_exception());
    return failed.get_future().share();
  }
}

Tensor int_tensor(const std::shared_ptr<Device>& device, const Shape& shape) {
  const std::vector<int32_t> zeros(static_cast<size_t>(shape.elements()), 0);
  return device->upload(DType::i32, shape, zeros.data());
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

const text::ChatTemplate* Engine::chat_template() const { return state_->chat_template.get().get(); }

std::optional<uint64_t> Engine::memory_peak() const {
  if (!state_->device->counts_memory()) return std::nullopt;
  return state_->device->memory(abi::MemoryKind::kDevice).reserved_peak;
}

int64_t Engine::State::pages_per_sequence() const {
  return round_up(facts.context, PagePool::kTokens) / PagePool::kTokens;
}

DecodeStep& Engine::State::decode_step(int64_t sequences) {
  DecodeStep& step = decode[sequences];
  if (step.run) return step;
  step.ids = int_tensor(device, Shape{sequences});
  step.positions = int_tensor(device, Shape{sequences});
  step.sequences = int_tensor(device, Shape{sequences});
  step.page_table = int_tensor(device, Shape{sequences, pages_per_sequence()});
  const llm::Step inputs{
      .ids = step.ids,
      .places = {.positions = step.positions, .sequence = step.sequences, .page_table = step.page_table}};
  step.run.emplace([this, inputs] { return std::vector{model->forward(inputs, *cache)}; });
  return step;
}

std::shared_ptr<Engine> Engine::load(const std::string& path, const LoadOptions& options) {
  return load(Checkpoint::open(path), options, nullptr);
}

std::shared_ptr<Engine> Engine::load(const Checkpoint& checkpoint, const LoadOptions& options,
                                     std::shared_ptr<Device> device) {
  if (has_encoder_alone(checkpoint)) {
    throw Error(ErrorCode::kBadInput, checkpoint.path() + ": the model is a text encoder, which writes no text",
                "gabbro embed, or gabbro rerank");
  }
  auto state = std::make_unique<State>();
  state->no_tokenizer = checkpoint.layout() == CheckpointLayout::kHuggingFace
                            ? "the folder has no tokenizer (tokenizer.json or tokenizer.model)"
                            : "the model has no vocabulary";
  try {
    if (has_vocabulary(checkpoint)) state->tokenizer = std::make_unique<text::Tokenizer>(read_tokenizer(checkpoint));
  } catch (const Error& error) {
    if (checkpoint.layout() == CheckpointLayout::kGguf) throw;
    state->no_tokenizer = error.what();  // token ids do without
  }
  state->chat_template = read_template_later(checkpoint);
  state->device = device != nullptr ? device : open_device(options.device, {.threads = options.threads});
  const ModelNeeds needs = needs_of(checkpoint);
  const llm::ModelShape& shape = needs.shape;
  if (state->tokenizer != nullptr && state->tokenizer->size() > shape.vocabulary) {
    throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", checkpoint.path(),
                    state->tokenizer->size(), shape.vocabulary);
  }

  ModelFacts& facts = state->facts;
  facts = describe(checkpoint, needs);
  facts.context = context_of(shape, options.context);
  facts.sequences = std::max<int64_t>(1, options.sequences);
  state->sampling = read_sampling_defaults(checkpoint);
  if (state->tokenizer != nullptr) {
    for (const std::string& warning : state->tokenizer->warnings())
      facts.warnings.push_back(checkpoint.path() + ": " + warning);
  }
  facts.warnings.insert(facts.warnings.end(), state->sampling.warnings.begin(), state->sampling.warnings.end());
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  state->model =
      llm::load_model(checkpoint, state->device,
                      {.context = facts.context, .check_weights = options.check_weights, .progress = progress});
  const int64_t pages = state->pages_per_sequence() * facts.sequences;
  state->cache.emplace(
      state->device, nn::KvCacheConfig{.layers = state->model->cache_spec(), .pages = pages, .dtype = options.kv_type});
  state->pages.emplace(pages);
  facts.kv_bytes_per_token = static_cast<uint64_t>(state->cache->config().bytes_per_token());
  facts.device_id = state->device->facts().id;
  facts.device_name = state->device->facts().name;
  if (const auto tuning = state->device->tuning()) facts.device_note = tuning->problem;
  facts.threads = options.threads > 0 ? options.threads : state->device->facts().compute_units;

  return std::shared_ptr<Engine>(new Engine(std::move(state)));
}

}  // namespace gabbro
