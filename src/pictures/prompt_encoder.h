// The texts of a picture as a denoiser takes them: states of one or two text encoders, and a pooled vector.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/pictures/pipeline_parts.h"
#include "src/pictures/text_states.h"

namespace gabbro::pictures {

// The two texts of a request.
struct PromptPair {
  std::string prompt, negative{};
  PromptSyntax syntax = PromptSyntax::kA1111;
  int64_t skipped = 0;  // last layers of the text encoders that are left out
  bool guides = true;   // the negative prompt has a part
  const std::atomic<bool>* cancel = nullptr;
};

struct EncodedPrompts {
  // [1 or 2, S, C]: the negative prompt's first. Never changed: the same address means the same states.
  std::shared_ptr<const std::vector<float>> states;
  std::vector<float> pooled;  // [1 or 2, P]; empty: the pipeline has none
  int64_t length = 0;         // S
  bool guides = false;
};

class PromptEncoder {
 public:
  // `embeddings`: files of textual inversion, [NAME=]FILE. Throws bad_input that names the file and what is wrong
  // there.
  PromptEncoder(const PipelineParts& parts, const std::shared_ptr<Device>& device, bool check_values,
                const std::vector<std::string>& embeddings);

  const TextStates& encoder(size_t index) const { return *encoders_[index]; }
  int64_t width() const;  // C: of all encoders together
  int64_t pooled_width() const { return encoders_.size() > 1 ? encoders_.back()->pooled_width() : 0; }  // P
  int64_t layers() const { return encoders_.front()->layers(); }
  int64_t most_skipped() const;

  // Adds a line to `notes` for words that were left out, and such. Throws bad_input, kInterrupted.
  EncodedPrompts encode(const PromptPair& prompts, std::vector<std::string>& notes) const;

 private:
  // Appends to the states and the pooled texts of all prompts.
  void append(const std::string& text, const PromptPair& prompts, size_t chunks, std::vector<float>& all_states,
              std::vector<float>& all_pooled) const;
  size_t count_chunks(const PromptPair& prompts, std::vector<std::string>& notes) const;
  // A line for each embedding that no text names.
  void note_unused(std::span<const PromptTokens> texts, PromptSyntax syntax, std::vector<std::string>& notes) const;

  std::vector<std::unique_ptr<TextStates>> encoders_;
  std::vector<Embeddings> embeddings_;  // of each encoder
  bool zeros_for_empty_ = false;
};

}  // namespace gabbro::pictures
