#include "gabbro/engine/text_encoder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/convert/encoder_conversion.h"
#include "src/engine/model_text.h"
#include "src/engine/sentence_fields.h"
#include "src/engine/sentence_modules.h"
#include "src/formats/quant/finite.h"
#include "src/models/encoder/registry.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

using encoder::EncoderBatch;
using encoder::Pooling;

constexpr llm::WeightName kDenseNames[] = {{"dense", "linear"}};

std::shared_ptr<nn::Linear> load_dense(const DenseModule& module, int64_t width, const std::shared_ptr<Device>& device,
                                       FilesInUse& files) {
  if (module.in != width) {
    throw bad_input("{}: config.json: in_features is {}, the vectors before it have {}", module.folder, module.in,
                    width);
  }
  const Checkpoint checkpoint = Checkpoint::open(module.folder);
  llm::CheckpointWeights weights(checkpoint, kDenseNames, device, {});
  std::shared_ptr<nn::Linear> dense = weights.linear("dense", {module.out, module.in});
  checkpoint.require_unchanged();
  files.add(checkpoint.files());
  return dense;
}

// The pooling of GGUF files (llama.cpp's enum llama_pooling_type).
std::optional<Pooling> pooling_of_gguf(const Checkpoint& checkpoint) {
  const std::string key = llm::architecture_of(checkpoint) + ".pooling_type";
  if (checkpoint.layout() != CheckpointLayout::kGguf || !checkpoint.metadata().has(key)) return std::nullopt;
  const uint32_t number = checkpoint.metadata().require_u32(key);
  const std::optional<Pooling> pooling = encoder::pooling_of_gguf_number(number);
  if (!pooling) throw bad_input("{}: field '{}' is {}, expected 0 to 4", checkpoint.path(), key, number);
  return *pooling == Pooling::kNone ? std::nullopt : pooling;
}

std::string folder_of(const Checkpoint& checkpoint) {
  std::error_code ignored;
  const std::filesystem::path path(checkpoint.path());
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string();
}

std::string name_of(const Checkpoint& checkpoint) {
  const std::string name(checkpoint.metadata().string_or("general.name", ""));
  const std::filesystem::path path = std::filesystem::weakly_canonical(checkpoint.path());
  return name.empty() ? path.stem().string() : name;
}

void require_finite(const std::string& model, const char* what, size_t text, std::span<const float> values) {
  const auto found = find_non_finite(values);
  if (!found) return;
  const int64_t shape[] = {std::ssize(values)};
  throw Error(ErrorCode::kFailed,
              fmt::format("{}: {} of text {} is not a number: {}", model, what, text + 1, describe(*found, shape)),
              "the file may be damaged: gabbro inspect MODEL --check reads all of it");
}

void normalize(std::span<float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
  for (float& value : vector) value = static_cast<float>(value * scale);
}

}  // namespace

struct TextEncoder::State {
  std::shared_ptr<Device> device;
  FilesInUse files;  // whose weights are used in place
  std::unique_ptr<encoder::Encoder> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string no_tokenizer;
  SentenceModules modules;
  std::vector<std::shared_ptr<nn::Linear>> dense;  // of modules.dense
  TextEncoderFacts facts;
  bool answers = false;  // the classifier's labels are "yes" and "no"
  std::mutex mutex;      // one batch at a time

  const text::Tokenizer& require_tokenizer() const {
    if (tokenizer == nullptr) throw bad_input("{}: {}", facts.name, no_tokenizer);
    return *tokenizer;
  }
  void read_texts(const Checkpoint& checkpoint);  // tokenizer and modules
  void choose_answers();                          // sets `answers`
  void describe(const Checkpoint& checkpoint, const LoadOptions& options);
  TokenizedText encode(const std::string& text, size_t number, const EmbedOptions& options) const;
  TokenizedText encode_pair(const std::string& query, const std::string& document, size_t number,
                            const RerankOptions& options) const;
  TokenizedText encode_question(const std::string& query, const std::string& document, size_t number,
                                const RerankOptions& options) const;
  void require_reranker() const;
  void check_tokens(std::span<const TokenizedText> texts) const;
  [[noreturn]] void refuse_length(const std::string& what, size_t tokens) const;
  // Calls visit(batch, its texts' numbers) for texts of similar length together.
  void run_batches(std::span<const TokenizedText> texts, int64_t batch, const std::function<void(double)>& progress,
                   const std::function<void(const EncoderBatch&, std::span<const size_t>)>& visit);
};

TextEncoder::TextEncoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
TextEncoder::~TextEncoder() = default;
const TextEncoderFacts& TextEncoder::facts() const { return state_->facts; }

std::shared_ptr<TextEncoder> TextEncoder::load(const std::string& path, const LoadOptions& options) {
  return load(Checkpoint::open(path), options);
}

void TextEncoder::State::read_texts(const Checkpoint& checkpoint) {
  const bool folder = checkpoint.layout() == CheckpointLayout::kHuggingFace;
  encoder::family_of(checkpoint);  // an unsupported architecture is reported first
  modules = folder ? read_sentence_modules(folder_of(checkpoint)) : read_sentence_fields(checkpoint.metadata());
  no_tokenizer =
      folder ? "the folder has no tokenizer (tokenizer.json or tokenizer.model)" : "the model has no vocabulary";
  if (!has_vocabulary(checkpoint)) return;
  if (modules.lower_case) {
    TokenizerFiles read = checkpoint.tokenizer_files();
    add_lower_case(read);
    tokenizer = std::make_unique<text::Tokenizer>(read_tokenizer(std::move(read)));
  } else {
    tokenizer = std::make_unique<text::Tokenizer>(read_tokenizer(checkpoint));
  }
}

void TextEncoder::State::choose_answers() {
  const encoder::EncoderConfig& config = model->config();
  answers = config.answers && config.head.labels == 2;
  if (!config.answers || config.head.labels != 0 || tokenizer == nullptr) return;
  const int32_t tokens[] = {tokenizer->find("yes"), tokenizer->find("no")};
  answers = tokens[0] != text::kNoToken && tokens[1] != text::kNoToken;
  if (answers) model->classify_by(tokens);
}

void TextEncoder::State::describe(const Checkpoint& checkpoint, const LoadOptions& options) {
  const encoder::EncoderConfig& config = model->config();
  facts.name = name_of(checkpoint);
  facts.architecture = std::string(encoder::family_of(checkpoint).architectures.front());
  Pooling pooling = modules.pooling.value_or(pooling_of_gguf(checkpoint).value_or(config.pooling));
  if (config.head.labels > 0 && !modules.pooling) pooling = Pooling::kRank;
  facts.pooling = pooling_name(pooling);
  facts.normalized = !modules.found || modules.normalized;
  facts.dimensions = config.projection > 0 ? config.projection : config.shape.embedding;
  for (const DenseModule& module : modules.dense) {
    dense.push_back(load_dense(module, facts.dimensions, device, files));
    facts.dimensions = module.out;
  }
  facts.most_tokens =
      std::min(config.shape.context_trained, modules.most_tokens.value_or(config.shape.context_trained));
  facts.labels = config.head.labels;
  facts.prompts = modules.prompts;
  facts.default_prompt = modules.default_prompt;
  facts.file_bytes = checkpoint.file_bytes();
  facts.device_id = device->facts().id;
  facts.device_name = device->facts().name;
  facts.threads = options.threads > 0 ? options.threads : device->facts().compute_units;
  if (tokenizer == nullptr) return;
  for (const std::string& warning : tokenizer->warnings()) facts.warnings.push_back(checkpoint.path() + ": " + warning);
}

std::shared_ptr<TextEncoder> TextEncoder::load(const Checkpoint& checkpoint, const LoadOptions& options) try {
  if (options.kv_type.value_or(DType::f32) != DType::f32) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: --kv-type {}: text encoders keep no keys and values, which are f32 while they compute",
                            checkpoint.path(), dtype_name(*options.kv_type)),
                "leave --kv-type out, or --kv-type f32");
  }
  auto state = std::make_unique<State>();
  state->read_texts(checkpoint);
  state->device = open_device(options.device, {.threads = options.threads});
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  state->model =
      encoder::load_encoder(checkpoint, state->device, {.check_values = options.check_weights, .progress = progress});
  const int64_t rows = state->model->config().shape.vocabulary;
  if (state->tokenizer != nullptr && state->tokenizer->size() > rows) {
    throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", checkpoint.path(),
                    state->tokenizer->size(), rows);
  }
  state->choose_answers();
  state->describe(checkpoint, options);
  checkpoint.require_unchanged();
  state->files.add(checkpoint.files());
  return std::shared_ptr<TextEncoder>(new TextEncoder(std::move(state)));
} catch (const Error&) {
  checkpoint.require_unchanged();  // then this is the reason
  throw;
}

void TextEncoder::State::refuse_length(const std::string& what, size_t tokens) const {
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} has {} tokens, the model takes {} at most", what, tokens, facts.most_tokens),
              "--truncate cuts texts that are too long");
}

TokenizedText TextEncoder::State::encode(const std::string& text, size_t number, const EmbedOptions& options) const {
  const text::Tokenizer& t = require_tokenizer();
  TokenizedText encoded{.ids = t.encode(options.prompt + text, {.parse_special = false})};
  if (!options.prompt.empty()) {
    const auto ids = t.encode(options.prompt, {.parse_special = false});
    encoded.prompt = std::ssize(ids) - std::ssize(t.suffix());
  }
  const auto most = static_cast<size_t>(facts.most_tokens);
  if (encoded.ids.size() > most) {
    if (!options.truncated) refuse_length(fmt::format("text {}", number + 1), encoded.ids.size());
    const std::span<const int32_t> suffix = t.suffix().first(std::min(t.suffix().size(), most));
    encoded.ids.resize(most);
    std::ranges::copy(suffix, encoded.ids.end() - std::ssize(suffix));
  }
  return encoded;
}

void TextEncoder::State::run_batches(std::span<const TokenizedText> texts, int64_t batch,
                                     const std::function<void(double)>& progress,
                                     const std::function<void(const EncoderBatch&, std::span<const size_t>)>& visit) {
  const std::lock_guard lock(mutex);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return texts[i].ids.size(); });
  constexpr size_t kMostTokens = size_t{1} << 14;  // of a batch: larger GEMMs are not faster
  for (size_t first = 0; first < order.size();) {
    std::vector<encoder::EncoderText> together;
    size_t end = first, tokens = 0;
    while (end < order.size() && std::ssize(together) < batch) {
      const TokenizedText& text = texts[order[end]];
      if (!together.empty() && tokens + text.ids.size() > kMostTokens) break;
      tokens += text.ids.size();
      together.push_back({.ids = text.ids, .types = text.types, .prompt = text.prompt});
      ++end;
    }
    visit(encoder::make_batch(device, together), std::span(order).subspan(first, end - first));
    files.require_unchanged();  // or these results are of other weights
    first = end;
    if (progress) progress(static_cast<double>(end) / static_cast<double>(order.size()));
  }
}

void TextEncoder::State::require_reranker() const {
  if (facts.labels == 1 || answers) return;
  throw bad_input("{}: {}", facts.name,
                  facts.labels == 0
                      ? "the model has no classifier, so it is not a reranker"
                      : fmt::format("the classifier has {} labels, that of a reranker has one", facts.labels));
}

void TextEncoder::State::check_tokens(std::span<const TokenizedText> texts) const {
  const encoder::EncoderConfig& config = model->config();
  const int64_t types = std::max<int64_t>(1, config.token_types);
  for (size_t i = 0; i < texts.size(); ++i) {
    const TokenizedText& text = texts[i];
    if (text.ids.empty()) throw bad_input("text {} has no tokens", i + 1);
    if (std::ssize(text.ids) > facts.most_tokens) refuse_length(fmt::format("text {}", i + 1), text.ids.size());
    for (const int32_t id : text.ids) {
      if (id < 0 || id >= config.shape.vocabulary)
        throw bad_input("text {}: token {} is outside the vocabulary of {} tokens", i + 1, id, config.shape.vocabulary);
    }
    if (!text.types.empty() && text.types.size() != text.ids.size())
      throw bad_input("text {} has {} tokens and {} types", i + 1, text.ids.size(), text.types.size());
    for (const int32_t type : text.types) {
      if (type < 0 || type >= types) throw bad_input("text {}: type {} is outside 0 to {}", i + 1, type, types - 1);
    }
  }
}

std::vector<float> TextEncoder::embed(std::span<const std::string> texts, const EmbedOptions& options) {
  std::vector<TokenizedText> encoded;
  for (size_t i = 0; i < texts.size(); ++i) encoded.push_back(state_->encode(texts[i], i, options));
  return embed_tokens(encoded, options);
}

std::vector<float> TextEncoder::embed_tokens(std::span<const TokenizedText> texts, const EmbedOptions& options) {
  State& s = *state_;
  s.check_tokens(texts);
  const Pooling pooling = parse_pooling(options.pooling.empty() ? s.facts.pooling : options.pooling);
  if (pooling == Pooling::kRank && options.pooling.empty())
    throw Error(ErrorCode::kBadInput, fmt::format("{}: the model is a reranker", s.facts.name),
                "gabbro rerank, or --pooling");
  const int64_t width = options.dimensions > 0 ? options.dimensions : s.facts.dimensions;
  if (width > s.facts.dimensions)
    throw bad_input("--dimensions {} is more than the {} of the model's vectors", width, s.facts.dimensions);
  std::vector<float> vectors(texts.size() * static_cast<size_t>(width));
  const bool normalized = options.normalized.value_or(s.facts.normalized);
  s.run_batches(texts, options.batch, options.progress, [&](const EncoderBatch& batch, std::span<const size_t> which) {
    const Tensor states = s.model->forward(batch, {.cancel = options.cancel});
    Tensor x = s.model->pooled(batch, states, pooling, s.modules.with_prompt);  // [B, C]
    for (size_t i = 0; i < s.dense.size(); ++i) x = s.modules.dense[i].tanh ? tanh((*s.dense[i])(x)) : (*s.dense[i])(x);
    eval(std::span(&x, 1), options.cancel);
    const std::vector<float> rows = to_host<float>(x);
    const auto all = static_cast<size_t>(s.facts.dimensions), wanted = static_cast<size_t>(width);
    for (size_t i = 0; i < which.size(); ++i) {
      const std::span<float> vector = std::span(vectors).subspan(which[i] * wanted, wanted);
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * all), wanted, vector.begin());
      if (normalized) normalize(vector);
    }
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto vector = std::span(vectors).subspan(i * static_cast<size_t>(width), static_cast<size_t>(width));
    require_finite(s.facts.name, "the vector", i, vector);
  }
  return vectors;
}

// The question of Qwen 3 Reranker (its model card). Only its pair of texts is cut.
TokenizedText TextEncoder::State::encode_question(const std::string& query, const std::string& document, size_t number,
                                                  const RerankOptions& options) const {
  constexpr const char* kBefore =
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
      "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
  constexpr const char* kAfter = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
  constexpr const char* kInstruction = "Given a web search query, retrieve relevant passages that answer the query";
  const text::Tokenizer& t = require_tokenizer();
  const std::string pair =
      fmt::format("<Instruct>: {}\n<Query>: {}\n<Document>: {}",
                  options.instruction.empty() ? kInstruction : options.instruction, query, document);
  TokenizedText question{.ids = t.encode(kBefore, {.add_special = false})};
  std::vector<int32_t> ids = t.encode(pair, {.add_special = false, .parse_special = false});
  const std::vector<int32_t> after = t.encode(kAfter, {.add_special = false});
  const size_t around = question.ids.size() + after.size(), most = static_cast<size_t>(facts.most_tokens);
  if (around + ids.size() > most) {
    if (!options.truncated || around >= most)
      refuse_length(fmt::format("the query with document {}", number + 1), around + ids.size());
    ids.resize(most - around);
  }
  question.ids.insert(question.ids.end(), ids.begin(), ids.end());
  question.ids.insert(question.ids.end(), after.begin(), after.end());
  return question;
}

// The longer of two texts loses tokens until both fit, as transformers' "longest_first" does.
TokenizedText TextEncoder::State::encode_pair(const std::string& query, const std::string& document, size_t number,
                                              const RerankOptions& options) const {
  if (answers) return encode_question(query, document, number, options);
  const text::Tokenizer& t = require_tokenizer();
  const text::EncodeOptions plain{.add_special = false, .parse_special = false};
  std::vector<int32_t> first = t.encode(query, plain), second = t.encode(document, plain);
  // [CLS] a [SEP] b [SEP]; RoBERTa's texts have two tokens between them: <s> a </s></s> b </s>.
  std::vector<int32_t> between(t.suffix().begin(), t.suffix().end());
  if (model->config().separators == 2) between.insert(between.end(), t.suffix().begin(), t.suffix().end());
  const size_t special = t.prefix().size() + between.size() + t.suffix().size();
  const auto most = static_cast<size_t>(facts.most_tokens);
  if (special + first.size() + second.size() > most) {
    if (!options.truncated)
      refuse_length(fmt::format("the query with document {}", number + 1), special + first.size() + second.size());
    while (special + first.size() + second.size() > most && !(first.empty() && second.empty()))
      (first.size() > second.size() ? first : second).pop_back();
  }
  TokenizedText pair;
  pair.ids.assign(t.prefix().begin(), t.prefix().end());
  pair.ids.insert(pair.ids.end(), first.begin(), first.end());
  pair.ids.insert(pair.ids.end(), between.begin(), between.end());
  pair.types.assign(pair.ids.size(), 0);
  pair.ids.insert(pair.ids.end(), second.begin(), second.end());
  pair.ids.insert(pair.ids.end(), t.suffix().begin(), t.suffix().end());
  pair.types.resize(pair.ids.size(), model->config().token_types > 1 ? 1 : 0);
  return pair;
}

std::vector<float> TextEncoder::rerank(const std::string& query, std::span<const std::string> documents,
                                       const RerankOptions& options) {
  std::vector<TokenizedText> pairs;
  state_->require_reranker();
  for (size_t i = 0; i < documents.size(); ++i) pairs.push_back(state_->encode_pair(query, documents[i], i, options));
  return score_tokens(pairs, options);
}

std::vector<float> TextEncoder::score_tokens(std::span<const TokenizedText> pairs, const RerankOptions& options) {
  State& s = *state_;
  s.require_reranker();
  s.check_tokens(pairs);
  const bool sigmoid = !options.raw && s.modules.sigmoid.value_or(true);
  std::vector<float> scores(pairs.size());
  s.run_batches(pairs, options.batch, options.progress, [&](const EncoderBatch& batch, std::span<const size_t> which) {
    const Tensor states = s.model->forward(batch, {.cancel = options.cancel});
    Tensor x = s.model->scores(s.model->pooled(batch, states, Pooling::kRank));  // [B, labels]
    eval(std::span(&x, 1), options.cancel);
    const std::vector<float> logits = to_host<float>(x);
    for (size_t i = 0; i < which.size(); ++i) {
      // The softmax of two logits is the sigmoid of their difference.
      const float logit = s.answers ? logits[2 * i] - logits[2 * i + 1] : logits[i];
      scores[which[i]] = sigmoid ? 1 / (1 + std::exp(-logit)) : logit;
    }
  });
  for (size_t i = 0; i < scores.size(); ++i)
    require_finite(s.facts.name, "the score", i, std::span(scores).subspan(i, 1));
  return scores;
}

}  // namespace gabbro
