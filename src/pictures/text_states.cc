#include "src/pictures/text_states.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/indexing.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/json_node.h"
#include "src/base/text_file.h"
#include "src/formats/hugging_face/tokenizer_files.h"
#include "src/models/encoder/registry.h"
#include "src/text/readers/clip_vocabulary.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostVocabulary = size_t{64} << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// vocab.json and merges.txt, which the published folders have, else tokenizer.json.
std::unique_ptr<text::Tokenizer> read_clip_tokenizer(const std::string& folder) {
  const fs::path path(folder);
  if (is_file(path / "vocab.json")) {
    return std::make_unique<text::Tokenizer>(
        text::read_clip_vocabulary({.folder = folder,
                                    .vocab_json = read_text_file((path / "vocab.json").string(), kMostVocabulary),
                                    .merges_txt = read_text_file((path / "merges.txt").string(), kMostVocabulary)}));
  }
  if (!is_file(path / "tokenizer.json"))
    throw bad_input("{}: has neither vocab.json and merges.txt nor tokenizer.json", folder);
  text::TokenizerFiles files{.name = folder};
  files.tokenizer_json = read_text_file((path / "tokenizer.json").string(), kMostVocabulary);
  return std::make_unique<text::Tokenizer>(text::read_tokenizer_json(files));
}

// The text of a special token: "<|endoftext|>", or {"content": ...}; "" where the files do not name it.
std::string special_text(const std::string& folder, std::string_view key) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path path = fs::path(folder) / name;
    if (!is_file(path)) continue;
    const Json document = parse_sorted_json(read_text_file(path.string(), kMostVocabulary), path.string());
    const auto field = JsonNode(document, path.string()).find(key);
    if (field) return field->is_object() ? field->at("content").string() : field->string();
  }
  return "";
}

// A1111: weights multiply the states, and a chunk's mean stays.
void multiply_weights(std::span<float> states, const PromptChunk& chunk, size_t width) {
  double before = 0, after = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    before += states[i];
    states[i] *= chunk[i / width].weight;
    after += states[i];
  }
  if (after == 0) return;
  const auto scale = static_cast<float>(before / after);
  for (float& state : states) state *= scale;
}

// ComfyUI: weights stretch the distance from the states of an empty prompt.
void stretch_weights(std::span<float> states, const PromptChunk& chunk, std::span<const float> empty, size_t width) {
  for (size_t i = 0; i < states.size(); ++i) {
    const float weight = chunk[i / width].weight;
    if (weight != 1) states[i] = (states[i] - empty[i]) * weight + empty[i];
  }
}

// The first end token; padding may have the same id, and vectors of an embedding have ids of no meaning.
size_t end_position(const PromptChunk& chunk, int32_t end) {
  const auto found =
      std::ranges::find_if(chunk, [&](const PromptToken& token) { return token.vector == nullptr && token.id == end; });
  return static_cast<size_t>(found - chunk.begin());  // each chunk has one
}

bool has_weights(const PromptChunk& chunk) {
  return std::ranges::any_of(chunk, [](const PromptToken& token) { return token.weight != 1; });
}

}  // namespace

TextStates::TextStates(const std::string& encoder_folder, const std::string& tokenizer_folder,
                       const std::shared_ptr<Device>& device, bool check_values, TextLayer layer)
    : TextStates({.checkpoint = Checkpoint::open(encoder_folder), .tokenizer = tokenizer_folder}, device, check_values,
                 layer) {}

TextStates::TextStates(const TextPart& part, const std::shared_ptr<Device>& device, bool check_values, TextLayer layer)
    : device_(device), layer_(layer) {
  const Checkpoint& checkpoint = part.checkpoint;
  const std::string &tokenizer_folder = part.tokenizer, &encoder_folder = checkpoint.path();
  tokenizer_ = part.vocabulary.empty()
                   ? read_clip_tokenizer(tokenizer_folder)
                   : std::make_unique<text::Tokenizer>(text::read_clip_vocabulary(
                         {.folder = tokenizer_folder, .vocab_json = part.vocabulary, .merges_txt = ""}));
  encoder_ = encoder::load_encoder(checkpoint, device, {.check_values = check_values});
  checkpoint.require_unchanged();
  files_.add(checkpoint.files());
  const int64_t rows = encoder_->config().shape.vocabulary;
  if (tokenizer_->size() > rows)
    throw bad_input("{}: the vocabulary has {} tokens, the embeddings only {}", tokenizer_folder, tokenizer_->size(),
                    rows);
  if (encoder_->config().shape.context_trained < 3)
    throw bad_input("{}: a context of {} tokens", encoder_folder, encoder_->config().shape.context_trained);
  begin_ = tokenizer_->find("<|startoftext|>");
  end_ = tokenizer_->find("<|endoftext|>");
  if (begin_ == text::kNoToken || end_ == text::kNoToken)
    throw bad_input("{}: has no tokens <|startoftext|> and <|endoftext|>", tokenizer_folder);
  const std::string padding = part.padding.empty() ? padding_token(tokenizer_folder) : part.padding;
  padding_ = padding.empty() ? end_ : tokenizer_->find(padding);
  if (padding_ == text::kNoToken)
    throw bad_input("{}: pad_token: the vocabulary has no token '{}'", tokenizer_folder, padding);
}

nn::Linear* TextStates::find_linear(const std::string& path) const {
  constexpr std::string_view kLayers = "encoder_layers_";
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"_self_attn_q_proj", "attn_q"},        {"_self_attn_k_proj", "attn_k"}, {"_self_attn_v_proj", "attn_v"},
      {"_self_attn_out_proj", "attn_output"}, {"_mlp_fc1", "ffn_up"},          {"_mlp_fc2", "ffn_down"}};
  if (!path.starts_with(kLayers)) return nullptr;
  const size_t end = std::min(path.find('_', kLayers.size()), path.size());
  int64_t index = -1;
  std::from_chars(path.data() + kLayers.size(), path.data() + end, index);
  for (const auto& [theirs, ours] : kNames) {
    if (std::string_view(path).substr(end) == theirs) return encoder_->find_linear(index, ours);
  }
  return nullptr;
}

std::string padding_token(const std::string& tokenizer_folder) { return special_text(tokenizer_folder, "pad_token"); }

PromptTokenizer TextStates::prompt_tokenizer(const Embeddings& embeddings) const {
  return {.tokenizer = *tokenizer_,
          .begin = begin_,
          .end = end_,
          .padding = padding_,
          .context = static_cast<size_t>(encoder_->config().shape.context_trained),
          .embeddings = embeddings};
}

std::vector<float> TextStates::plain_states(const std::vector<PromptChunk>& chunks, int64_t skipped,
                                            const std::atomic<bool>* cancel, std::vector<float>* pooled) const {
  std::vector<encoder::EncoderText> texts;
  bool replaces = false;
  for (const PromptChunk& chunk : chunks) {
    encoder::EncoderText& text = texts.emplace_back();
    for (const PromptToken& token : chunk) {
      text.ids.push_back(token.id);
      replaces = replaces || token.vector != nullptr;
    }
  }
  const encoder::EncoderBatch batch = encoder::make_batch(device_, texts);
  encoder::ForwardOptions options{.layers = layers() - skipped, .norms_fewer = true, .cancel = cancel};
  Tensor inner;
  if (layer_ == TextLayer::kPenultimate) {
    options.inner_layers = layers() - 1 - skipped;
    options.layers = pooled != nullptr ? layers() : options.inner_layers;
    options.inner = &inner;
  } else if (pooled != nullptr) {
    throw std::logic_error("pooled states belong to the penultimate layer");
  }
  if (replaces) {
    Tensor looked_up = encoder_->embed_tokens(batch.ids);  // [T, C]
    eval(std::span(&looked_up, 1), cancel);
    std::vector<float> rows = to_host<float>(looked_up);
    auto row = rows.begin();
    for (const PromptChunk& chunk : chunks) {
      for (const PromptToken& token : chunk) {
        if (token.vector != nullptr) std::ranges::copy(*token.vector, row);
        row += width();
      }
    }
    options.embedded_tokens = device_->upload(DType::f32, looked_up.shape(), rows.data());
  }
  Tensor last = encoder_->forward(batch, options);
  std::vector<Tensor> wanted{inner.defined() ? inner : last};
  if (pooled != nullptr) {
    const auto end = static_cast<int32_t>(end_position(chunks[0], end_));
    wanted.push_back(encoder_->projected(gather(last, device_->upload(DType::i32, Shape{1}, &end))));
  }
  eval(wanted, cancel);
  if (pooled != nullptr) *pooled = to_host<float>(wanted[1]);
  return to_host<float>(wanted[0]);
}

std::vector<float> TextStates::states(const PromptTokens& tokens, PromptSyntax syntax, int64_t skipped,
                                      const std::atomic<bool>* cancel, std::vector<float>* pooled) const {
  if (skipped < 0 || skipped > most_skipped())
    throw bad_input("--clip-skip {}: the text encoder has {} layers", skipped, layers());
  std::vector<PromptChunk> chunks = tokens.chunks;
  const bool weighted = std::ranges::any_of(chunks, has_weights);
  const bool stretches = weighted && syntax == PromptSyntax::kComfyUi;
  PromptTokens empty;
  static const Embeddings kNone;
  pad_chunks(empty, 1, prompt_tokenizer(kNone));
  if (stretches) chunks.push_back(empty.chunks[0]);
  std::vector<float> all = plain_states(chunks, skipped, cancel, pooled);
  const auto width = static_cast<size_t>(this->width()), size = chunks[0].size() * width;
  for (size_t i = 0; weighted && i < tokens.chunks.size(); ++i) {
    const std::span<float> states = std::span(all).subspan(i * size, size);
    if (stretches) {
      stretch_weights(states, chunks[i], std::span(all).subspan(tokens.chunks.size() * size, size), width);
    } else if (has_weights(chunks[i])) {
      multiply_weights(states, chunks[i], width);
    }
  }
  all.resize(tokens.chunks.size() * size);
  return all;
}

}  // namespace gabbro::pictures
