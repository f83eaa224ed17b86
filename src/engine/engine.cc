// Loading: a file becomes an Engine.
#include <filesystem>
#include <map>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_text.h"
#include "src/formats/gguf.h"

namespace gabbro {
namespace {

constexpr int64_t kDefaultContext = 4096;  // tokens; more is asked for with --ctx, since its cache takes memory

// The names of llama.cpp's file types (general.file_type), which tell more than the formats of single tensors do.
std::string file_type_name(uint32_t type) {
  static const std::map<uint32_t, const char*> kNames = {
      {0, "f32"},     {1, "f16"},     {2, "q4_0"},    {3, "q4_1"},    {7, "q8_0"},    {8, "q5_0"},    {9, "q5_1"},
      {10, "q2_k"},   {11, "q3_k_s"}, {12, "q3_k_m"}, {13, "q3_k_l"}, {14, "q4_k_s"}, {15, "q4_k_m"}, {16, "q5_k_s"},
      {17, "q5_k_m"}, {18, "q6_k"},   {21, "q2_k_s"}, {25, "iq4_nl"}, {30, "iq4_xs"}, {32, "bf16"},
  };
  const auto found = kNames.find(type);
  return found != kNames.end() ? found->second : "";
}

// What the weights are, by bytes: for files that do not say.
std::string most_common_type(const gguf::File& file) {
  std::map<std::string, size_t> bytes;
  for (const gguf::TensorInfo& info : file.tensors()) bytes[std::string(info.type_name)] += info.data.size();
  std::string best;
  for (const auto& [name, count] : bytes) {
    if (best.empty() || count > bytes[best]) best = name;
  }
  for (char& c : best) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return best;
}

ModelFacts describe(const gguf::File& file, const llm::ModelShape& shape) {
  ModelFacts facts;
  facts.name = file.string_or("general.name", std::filesystem::path(file.path()).stem().string());
  facts.architecture = file.require_string("general.architecture");
  if (file.find("general.file_type") != nullptr)
    facts.quantisation = file_type_name(file.require_u32("general.file_type"));
  if (facts.quantisation.empty()) facts.quantisation = most_common_type(file);
  facts.vocabulary = shape.vocabulary;
  facts.layers = shape.layers;
  facts.context_trained = shape.context_trained;
  for (const auto& part : file.parts()) facts.file_bytes += part->bytes().size();
  const bool own_head = file.tensor("output.weight") != nullptr;
  for (const gguf::TensorInfo& info : file.tensors()) {
    facts.parameters += info.elements();
    facts.weight_bytes += info.data.size();
    const bool table_only = own_head && info.name == "token_embd.weight";  // one row of it is read for a token
    if (!table_only) facts.bytes_per_token += info.data.size();
  }
  return facts;
}

// The tokens that a session can hold.
int64_t context_of(const llm::ModelShape& shape, int64_t wanted) {
  if (wanted < 0) throw bad_input("the context cannot be {} tokens", wanted);
  const int64_t context = wanted > 0 ? wanted : std::min(shape.context_trained, kDefaultContext);
  if (context > shape.context_trained * 64) {
    throw bad_input("a context of {} tokens is absurd for a model trained with {}", context, shape.context_trained);
  }
  return context;
}

std::shared_future<std::unique_ptr<const text::ChatTemplate>> read_template_later(const gguf::File& file) {
  using Template = std::unique_ptr<const text::ChatTemplate>;
  try {
    const auto parse = [](const std::optional<std::string>& source) {
      return source ? std::make_unique<const text::ChatTemplate>(*source) : Template();
    };
    return std::async(std::launch::deferred, parse, read_chat_template(file)).share();
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
const text::Tokenizer& Engine::tokenizer() const { return *state_->tokenizer; }
const text::ChatTemplate* Engine::chat_template() const { return state_->chat_template.get().get(); }

std::shared_ptr<Engine> Engine::load(const std::string& path, const LoadOptions& options) {
  const gguf::File file = gguf::File::open(path);
  auto state = std::make_unique<State>();
  state->tokenizer = std::make_unique<text::Tokenizer>(read_tokenizer(file));
  state->chat_template = read_template_later(file);
  state->device = open_device(options.device, {.threads = options.threads});
  const llm::ModelShape shape = llm::read_shape(file);
  if (state->tokenizer->size() > shape.vocabulary) {
    throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", path, state->tokenizer->size(),
                    shape.vocabulary);
  }

  const int64_t p = nn::KvCacheConfig::kPageTokens;
  ModelFacts& facts = state->facts;
  facts = describe(file, shape);
  facts.context = context_of(shape, options.context);
  state->model = llm::load_model(file, state->device, facts.context, [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  });
  const int64_t pages = (facts.context + p - 1) / p;
  state->cache.emplace(state->device, nn::KvCacheConfig{.layers = shape.layers,
                                                        .heads = shape.kv_heads,
                                                        .dimension = shape.head_dimension,
                                                        .pages = pages,
                                                        .dtype = options.kv_type});
  state->pages.emplace(pages);
  facts.kv_bytes_per_token = static_cast<uint64_t>(state->cache->config().bytes_per_token());
  facts.device_id = state->device->facts().id;
  facts.device_name = state->device->facts().name;
  facts.threads = options.threads > 0 ? options.threads : state->device->facts().compute_units;

  DecodeStep& decode = state->decode;
  decode.ids = int_tensor(state->device, Shape{1});
  decode.positions = int_tensor(state->device, Shape{1});
  decode.page_table = int_tensor(state->device, Shape{1, pages});
  return std::shared_ptr<Engine>(new Engine(std::move(state)));
}

}  // namespace gabbro
