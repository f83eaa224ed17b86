#include "src/models/encoder/text_to_text.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/plan/eval.h"

namespace gabbro::encoder {
namespace {

// Rows [1, V] below each other; undefined: there is no row.
Tensor joined(const std::vector<Tensor>& rows, const std::atomic<bool>* cancel) {
  if (rows.size() < 2) return rows.empty() ? Tensor() : rows.front();
  const Tensor all = concat(rows, 0);
  eval(std::span(&all, 1), cancel);
  return all;
}

}  // namespace

TextToTextModel::TextToTextModel(T5Model model, std::optional<int32_t> end_token)
    : model_(std::move(model)), end_token_(end_token), shape_(model_.decoder->shape()) {
  shape_.context_trained *= 2;  // a text and its answer
}

std::vector<nn::CacheLayer> TextToTextModel::cache_spec() const {
  const nn::CacheLayer layer{.heads = shape_.heads,
                             .dimension = shape_.head_dimension,
                             .kind = nn::CacheKind::kText,
                             .text = model_.decoder->shape().context_trained};
  return std::vector<nn::CacheLayer>(static_cast<size_t>(shape_.layers), layer);
}

Tensor TextToTextModel::forward(const llm::Step& step, const nn::KvCache& cache) const {
  std::vector<Tensor> rows;
  for (const llm::SequenceTokens& sequence : step.sequences) {
    const Tensor logits = answer(sequence, cache, step.cancel);
    if (logits.defined()) rows.push_back(logits);
  }
  return joined(rows, step.cancel);
}

nn::EncodedText TextToTextModel::encode(std::vector<int32_t> text, const std::atomic<bool>* cancel) const {
  EncoderText read{.ids = std::move(text)};
  // T5 reads a text with its end token, which prompts do not have.
  if (end_token_ && read.ids.back() != *end_token_) read.ids.push_back(*end_token_);
  const EncoderBatch batch = make_batch(model_.decoder->device(), std::span(&read, 1));
  return model_.decoder->begin(model_.encoder->forward(batch, {.cancel = cancel}), cancel);
}

Tensor TextToTextModel::answer(const llm::SequenceTokens& sequence, const nn::KvCache& cache,
                               const std::atomic<bool>* cancel) const {
  const int64_t held = std::ssize(sequence.held), text_length = sequence.text_length;
  const bool reads = held < text_length;
  if (reads && sequence.wanted > 1) throw bad_input("an encoder-decoder has no logits of the tokens of its text");
  std::span<const int32_t> fed = sequence.tokens;
  nn::EncodedText state;
  if (!reads) {
    state = cache.text(sequence.slot);
  } else {
    // A text that goes on in the next step is encoded there.
    if (held + std::ssize(fed) < text_length) return {};
    const auto missing = static_cast<size_t>(text_length - held);
    std::vector<int32_t> text(sequence.held.begin(), sequence.held.end());
    text.insert(text.end(), fed.begin(), fed.begin() + static_cast<std::ptrdiff_t>(missing));
    state = encode(std::move(text), cancel);
    fed = fed.subspan(missing);
  }
  std::vector<Tensor> logits;  // each [1, V]
  if (state.length == 0) logits.push_back(model_.decoder->step(state, model_.start_token, cancel));
  for (const int32_t token : fed) logits.push_back(model_.decoder->step(state, token, cancel));
  cache.text(sequence.slot) = std::move(state);
  logits.erase(logits.begin(), logits.end() - std::min(sequence.wanted, std::ssize(logits)));
  return joined(logits, cancel);
}

}  // namespace gabbro::encoder
