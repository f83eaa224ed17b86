// An encoder-decoder (T5) as a language model: the encoder reads the first tokens of a sequence, the decoder writes
// those after them.
#pragma once

#include <optional>

#include "src/models/encoder/t5_decoder.h"
#include "src/models/llm/model.h"

namespace gabbro::encoder {

class TextToTextModel final : public llm::LanguageModel {
 public:
  // `end_token` ends the text that the encoder reads, where tokenizers add one.
  TextToTextModel(T5Model model, std::optional<int32_t> end_token);

  // The decoder's, whose trained context is that of a text and an answer.
  const llm::ModelShape& shape() const override { return shape_; }
  std::vector<nn::CacheLayer> cache_spec() const override;
  // Evaluates the sequences of Step::sequences one by one. Throws bad_input where logits of a text's tokens but the
  // last are wanted.
  Tensor forward(const llm::Step& step, const nn::KvCache& cache) const override;

 private:
  // The wanted logits [R, V] of a sequence; undefined where none are.
  Tensor answer(const llm::SequenceTokens& sequence, const nn::KvCache& cache, const std::atomic<bool>* cancel) const;
  nn::EncodedText encode(std::vector<int32_t> text, const std::atomic<bool>* cancel) const;

  T5Model model_;
  std::optional<int32_t> end_token_;
  llm::ModelShape shape_;
};

}  // namespace gabbro::encoder
