// The states of a text encoder that condition a picture.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mapped_file.h"
#include "src/models/encoder/encoder.h"
#include "src/pictures/pipeline_parts.h"
#include "src/pictures/prompts/prompt_tokens.h"

namespace gabbro::pictures {

// The states that a denoiser was trained with: after all layers with the final norm, or those before the last layer,
// without it, as SDXL takes them.
enum class TextLayer { kLast, kPenultimate };

// CLIP's tokenizer and text encoder of a pipeline's folder.
class TextStates {
 public:
  // Folders: text_encoder/ and tokenizer/. Throws bad_input that names the file and what is wrong there.
  TextStates(const std::string& encoder_folder, const std::string& tokenizer_folder,
             const std::shared_ptr<Device>& device, bool check_values, TextLayer layer = TextLayer::kLast);
  TextStates(const TextPart& part, const std::shared_ptr<Device>& device, bool check_values, TextLayer layer);

  const std::shared_ptr<Device>& device() const { return device_; }
  int64_t width() const { return encoder_->config().shape.embedding; }
  int64_t pooled_width() const { return encoder_->config().projection; }  // 0: pooled states have no projection
  int64_t layers() const { return encoder_->config().shape.layers; }
  // How many of the last layers can be left out.
  int64_t most_skipped() const { return layers() - (layer_ == TextLayer::kPenultimate ? 2 : 1); }
  // The layer at a path of transformers with '_' for '.': "encoder_layers_0_self_attn_q_proj"; null if there is none.
  nn::Linear* find_linear(const std::string& path) const;
  PromptTokenizer prompt_tokenizer(const Embeddings& embeddings) const;

  // States of all chunks, in sequence, f32 [chunks · context, C], of the pipeline's layer, or `skipped` layers before
  // it. Weights are applied as `syntax` has it. `pooled`, if not null, receives the projected last state of the first
  // chunk's end token, without weights: f32 [pooled_width()]. Throws kInterrupted.
  std::vector<float> states(const PromptTokens& tokens, PromptSyntax syntax, int64_t skipped,
                            const std::atomic<bool>* cancel, std::vector<float>* pooled = nullptr) const;

 private:
  std::vector<float> plain_states(const std::vector<PromptChunk>& chunks, int64_t skipped,
                                  const std::atomic<bool>* cancel, std::vector<float>* pooled) const;

  std::shared_ptr<Device> device_;
  FilesInUse files_;
  std::unique_ptr<encoder::Encoder> encoder_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  int32_t begin_ = 0, end_ = 0, padding_ = 0;
  TextLayer layer_ = TextLayer::kLast;
};

// The text of the token that a tokenizer's folder pads with; "" where its files do not name it.
std::string padding_token(const std::string& tokenizer_folder);

}  // namespace gabbro::pictures
