// The states of a text encoder that condition a picture.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mapped_file.h"
#include "src/models/encoder/encoder.h"
#include "src/pictures/prompts/prompt_tokens.h"

namespace gabbro::pictures {

// CLIP's tokenizer and text encoder of a pipeline's folder.
class TextStates {
 public:
  // Folders: text_encoder/ and tokenizer/. Throws bad_input that names the file and what is wrong there.
  TextStates(const std::string& encoder_folder, const std::string& tokenizer_folder,
             const std::shared_ptr<Device>& device, bool check_values);

  int64_t width() const { return encoder_->config().shape.embedding; }
  int64_t layers() const { return encoder_->config().shape.layers; }
  PromptTokenizer prompt_tokenizer(const Embeddings& embeddings) const;

  // States of all chunks, in sequence, f32 [chunks · context, C]: after all layers but the last `skipped`, with
  // the final norm. Weights are applied as `syntax` has it. Throws kInterrupted.
  std::vector<float> states(const PromptTokens& tokens, PromptSyntax syntax, int64_t skipped,
                            const std::atomic<bool>* cancel) const;

 private:
  std::vector<float> plain_states(const std::vector<PromptChunk>& chunks, int64_t skipped,
                                  const std::atomic<bool>* cancel) const;

  std::shared_ptr<Device> device_;
  FilesInUse files_;
  std::unique_ptr<encoder::Encoder> encoder_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  int32_t begin_ = 0, end_ = 0, padding_ = 0;
};

}  // namespace gabbro::pictures
