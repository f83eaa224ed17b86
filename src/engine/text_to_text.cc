#include "src/engine/text_to_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/engine/runner.h"
#include "src/models/config/config_reader.h"
#include "src/models/encoder/registry.h"
#include "src/models/weights/weight_list.h"

namespace gabbro {
namespace {

void refuse_options(const Checkpoint& checkpoint, const LoadOptions& options) {
  const char* const refused = options.memory != 0           ? "--memory"
                              : !options.quantize.empty()   ? "--quantize"
                              : !options.adapters.empty()   ? "--lora"
                              : options.observer != nullptr ? "--imatrix"
                                                            : nullptr;
  if (refused != nullptr) throw bad_input("{}: encoder-decoders do not take {}", checkpoint.path(), refused);
}

DType kv_type_of(const LoadOptions& options) { return options.kv_type.value_or(DType::f32); }

// The format of most bytes, in small letters.
std::string most_common_format(const Checkpoint& checkpoint) {
  std::map<std::string, size_t> bytes;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) bytes[std::string(tensor.format)] += tensor.data.size();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
  std::string name = most != bytes.end() ? most->first : "";
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Bytes of the decoder's weights and its head, which each token reads.
uint64_t bytes_of_decoder(const Checkpoint& checkpoint) {
  const encoder::Family& family = encoder::family_of(checkpoint);
  const encoder::T5DecoderConfig read = encoder::read_t5_decoder(checkpoint);
  llm::WeightList list([&](const std::string& name) { return llm::has_weight(family.names, checkpoint, name); });
  const encoder::T5Decoder asks(read.config, read.scaled, list);
  const bool tied = !list.has("output.weight");
  uint64_t bytes = 0;
  for (const llm::RequestedTensor& tensor : list.tensors()) {
    if (tensor.name == "token_embd.weight" && !tied) continue;  // of which one row is read
    bytes += checkpoint.require_tensor(llm::weight_name(family.names, checkpoint, tensor.name)).data.size();
  }
  return bytes;
}

ModelFacts describe_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options) {
  const llm::ModelShape shape = encoder::read_t5_decoder(checkpoint).config.shape;
  ModelFacts facts;
  facts.name = checkpoint.metadata().string_or("general.name", "");
  if (facts.name.empty()) facts.name = std::filesystem::weakly_canonical(checkpoint.path()).stem().string();
  facts.architecture = llm::architecture_of(checkpoint);
  facts.quantization = most_common_format(checkpoint);
  facts.vocabulary = shape.vocabulary;
  facts.layers = shape.layers;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    facts.parameters += tensor.elements();
    facts.weight_bytes += tensor.data.size();
  }
  facts.file_bytes = checkpoint.file_bytes();
  facts.bytes_per_token = bytes_of_decoder(checkpoint);
  llm::ModelShape both = shape;
  both.context_trained = 2 * shape.context_trained;  // a text and its answer
  facts.context_trained = both.context_trained;
  facts.context = context_of(both, options.context);
  facts.sequences = std::max<int64_t>(1, options.sequences);
  // Keys and values of the answer's tokens and of the text's.
  facts.kv_type = kv_type_of(options);
  facts.kv_bytes_per_token =
      dtype_bytes(facts.kv_type, static_cast<size_t>(shape.layers * 2 * shape.heads * shape.head_dimension));
  facts.state_bytes = facts.kv_bytes_per_token * static_cast<uint64_t>(shape.context_trained);
  facts.cache_bytes = (facts.kv_bytes_per_token * static_cast<uint64_t>(facts.context) + facts.state_bytes) *
                      static_cast<uint64_t>(facts.sequences);
  return facts;
}

}  // namespace

TextToText load_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options,
                             const std::shared_ptr<Device>& device) {
  refuse_options(checkpoint, options);
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  return {.model = encoder::load_t5(checkpoint, device, {.check_values = options.check_weights, .progress = progress},
                                    kv_type_of(options)),
          .facts = describe_text_to_text(checkpoint, options)};
}

// Each sequence by itself.
Tensor Runner::answer_texts(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  std::vector<Tensor> rows;
  for (const Chunk& chunk : chunks) {
    const Tensor logits = answer(chunk, cancel);
    if (logits.defined()) rows.push_back(logits);
  }
  if (rows.size() < 2) return rows.empty() ? Tensor() : rows.front();
  const Tensor all = concat(rows, 0);
  eval(std::span(&all, 1), cancel);
  return all;
}

// The wanted rows of logits [R, V] after the chunk's tokens; undefined where none are.
Tensor Runner::answer(const Chunk& chunk, const std::atomic<bool>* cancel) {
  const encoder::T5Model& model = *engine_->state_->text_to_text;
  Sequence& sequence = *chunk.sequence;
  const int64_t held = std::ssize(sequence.tokens_);
  const bool reads = held < sequence.text_length_ || held == 0;
  if (reads && chunk.rows == Chunk::Rows::kAll && chunk.tokens.size() > 1)
    throw bad_input("an encoder-decoder has no logits of the tokens of its text");
  std::vector<int32_t> tokens = sequence.tokens_;
  tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  const int64_t text_length = reads ? std::ssize(tokens) : sequence.text_length_;
  std::span<const int32_t> fed = chunk.tokens;
  auto state = std::make_unique<encoder::T5State>();
  if (!reads && sequence.t5_state_ != nullptr) {
    *state = *sequence.t5_state_;
    state->length = std::min(state->length, 1 + held - text_length);  // of a sequence that was cut
  }
  if (reads || sequence.t5_state_ == nullptr || state->length != 1 + held - text_length) {
    encoder::EncoderText text{.ids = {tokens.begin(), tokens.begin() + text_length}};
    // T5 reads a text with its end token, which prompts do not have.
    const text::Tokenizer* const tokenizer = engine_->state_->tokenizer.get();
    if (tokenizer != nullptr && tokenizer->adds_eos() && text.ids.back() != tokenizer->eos())
      text.ids.push_back(tokenizer->eos());
    const Tensor states =
        model.encoder->forward(encoder::make_batch(engine_->state_->device, std::span(&text, 1)), {.cancel = cancel});
    *state = model.decoder->begin(states, cancel);
    fed = std::span(tokens).subspan(static_cast<size_t>(text_length));
  }
  const size_t wanted = chunk.rows == Chunk::Rows::kNone   ? 0
                        : chunk.rows == Chunk::Rows::kLast ? 1
                                                           : chunk.tokens.size();
  std::vector<Tensor> logits;
  if (state->length == 0) logits.push_back(model.decoder->step(*state, model.start_token, cancel));
  for (const int32_t token : fed) logits.push_back(model.decoder->step(*state, token, cancel));
  sequence.text_length_ = text_length;
  sequence.t5_state_ = std::move(state);
  logits.erase(logits.begin(), logits.end() - static_cast<std::ptrdiff_t>(std::min(wanted, logits.size())));
  if (logits.size() < 2) return logits.empty() ? Tensor() : logits.front();
  const Tensor all = concat(logits, 0);
  eval(std::span(&all, 1), cancel);
  return all;
}

}  // namespace gabbro
