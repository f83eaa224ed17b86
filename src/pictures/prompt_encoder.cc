#include "src/pictures/prompt_encoder.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/pictures/embedding_file.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostChunks = 64;

// Rows of two encoders next to each other: [S, A] and [S, B] to [S, A + B].
std::vector<float> joined_rows(const std::vector<float>& a, size_t a_width, const std::vector<float>& b,
                               size_t b_width) {
  std::vector<float> joined;
  joined.reserve(a.size() + b.size());
  for (size_t row = 0; row * a_width < a.size(); ++row) {
    const auto left = a.begin() + static_cast<ptrdiff_t>(row * a_width);
    const auto right = b.begin() + static_cast<ptrdiff_t>(row * b_width);
    joined.insert(joined.end(), left, left + static_cast<ptrdiff_t>(a_width));
    joined.insert(joined.end(), right, right + static_cast<ptrdiff_t>(b_width));
  }
  return joined;
}

}  // namespace

PromptEncoder::PromptEncoder(const PipelineParts& parts, const std::shared_ptr<Device>& device, bool check_values,
                             const std::vector<std::string>& embeddings)
    : zeros_for_empty_(parts.zeros_for_empty) {
  const TextLayer layer = parts.text_encoders.size() > 1 ? TextLayer::kPenultimate : TextLayer::kLast;
  for (const TextPart& part : parts.text_encoders)
    encoders_.push_back(std::make_unique<TextStates>(part, device, check_values, layer));
  for (size_t i = 0; i < encoders_.size(); ++i) {
    embeddings_.push_back(read_embeddings(embeddings, encoders_[i]->width(), i == 0 ? "clip_l" : "clip_g"));
    const auto context = [](const TextStates& states) {
      static const Embeddings kNone;
      return states.prompt_tokenizer(kNone).context;
    };
    if (context(*encoders_[i]) != context(*encoders_[0]))
      throw bad_input("{}: its context has another length than {}", parts.text_encoders[i].checkpoint.path(),
                      parts.text_encoders[0].checkpoint.path());
    if (encoders_[i]->most_skipped() < 0)
      throw bad_input("{}: has too few layers", parts.text_encoders[i].checkpoint.path());
  }
  if (encoders_.size() > 1 && pooled_width() == 0)
    throw bad_input("{}: has no text_projection", parts.text_encoders.back().checkpoint.path());
}

int64_t PromptEncoder::width() const {
  int64_t width = 0;
  for (const auto& encoder : encoders_) width += encoder->width();
  return width;
}

int64_t PromptEncoder::most_skipped() const {
  int64_t most = encoders_.front()->most_skipped();
  for (const auto& encoder : encoders_) most = std::min(most, encoder->most_skipped());
  return most;
}

void PromptEncoder::note_unused(std::span<const PromptTokens> texts, PromptSyntax syntax,
                                std::vector<std::string>& notes) const {
  for (const auto& [name, embedding] : embeddings_.front()) {
    const auto* const first = &embedding->vectors.front();
    const auto is_of = [first](const PromptToken& token) { return token.vector == first; };
    const bool used = std::ranges::any_of(texts, [&](const PromptTokens& text) {
      return std::ranges::any_of(text.chunks,
                                 [&](const PromptChunk& chunk) { return std::ranges::any_of(chunk, is_of); });
    });
    if (used) continue;
    notes.push_back(fmt::format("no prompt uses the embedding {}{}", quote(name),
                                syntax == PromptSyntax::kComfyUi ? ", in ComfyUI's way embedding:NAME" : ""));
  }
}

size_t PromptEncoder::count_chunks(const PromptPair& prompts, std::vector<std::string>& notes) const {
  size_t chunks = 0;
  std::vector<PromptTokens> texts;  // of the first encoder
  for (size_t i = 0; i < encoders_.size(); ++i) {
    const PromptTokenizer tokenizer = encoders_[i]->prompt_tokenizer(embeddings_[i]);
    for (const std::string* text : {&prompts.prompt, &prompts.negative}) {
      const PromptTokens tokens = tokenize_prompt(*text, prompts.syntax, tokenizer);
      if (text == &prompts.prompt || prompts.guides) chunks = std::max(chunks, tokens.chunks.size());
      if (std::ssize(tokens.chunks) > kMostChunks)
        throw bad_input("the prompt has more than {} tokens", kMostChunks * static_cast<int64_t>(tokenizer.context));
      if (i > 0) continue;  // the other encoder reads the same words
      if (!tokens.dropped.empty()) {
        notes.push_back(fmt::format("the {}prompt has more than {} tokens; left out: {}",
                                    text == &prompts.prompt ? "" : "negative ", tokenizer.context - 2, tokens.dropped));
      }
      notes.insert(notes.end(), tokens.notes.begin(), tokens.notes.end());
      if (text == &prompts.prompt || prompts.guides) texts.push_back(tokens);
    }
  }
  note_unused(texts, prompts.syntax, notes);
  return chunks;
}

void PromptEncoder::append(const std::string& text, const PromptPair& prompts, size_t chunks,
                           std::vector<float>& all_states, std::vector<float>& all_pooled) const {
  std::vector<float> states, pooled;
  size_t width = 0;
  for (size_t i = 0; i < encoders_.size(); ++i) {
    const TextStates& encoder = *encoders_[i];
    const PromptTokenizer tokenizer = encoder.prompt_tokenizer(embeddings_[i]);
    PromptTokens tokens = tokenize_prompt(text, prompts.syntax, tokenizer);
    pad_chunks(tokens, chunks, tokenizer);
    const bool pools = pooled_width() > 0 && i + 1 == encoders_.size();
    std::vector<float> of_encoder =
        encoder.states(tokens, prompts.syntax, prompts.skipped, prompts.cancel, pools ? &pooled : nullptr);
    const auto own_width = static_cast<size_t>(encoder.width());
    states = i == 0 ? std::move(of_encoder) : joined_rows(states, width, of_encoder, own_width);
    width += own_width;
  }
  all_states.insert(all_states.end(), states.begin(), states.end());
  all_pooled.insert(all_pooled.end(), pooled.begin(), pooled.end());
}

EncodedPrompts PromptEncoder::encode(const PromptPair& prompts, std::vector<std::string>& notes) const {
  const size_t chunks = count_chunks(prompts, notes);
  const size_t context = encoders_[0]->prompt_tokenizer(embeddings_[0]).context;
  EncodedPrompts out{.states = {}, .length = static_cast<int64_t>(chunks * context), .guides = prompts.guides};
  std::vector<float> states;
  if (prompts.guides) {
    // SDXL was trained with zeros in place of an empty prompt; ComfyUI encodes the empty text all the same.
    if (zeros_for_empty_ && prompts.negative.empty() && prompts.syntax != PromptSyntax::kComfyUi) {
      states.resize(static_cast<size_t>(out.length * width()));
      out.pooled.resize(static_cast<size_t>(pooled_width()));
    } else {
      append(prompts.negative, prompts, chunks, states, out.pooled);
    }
  }
  append(prompts.prompt, prompts, chunks, states, out.pooled);
  out.states = std::make_shared<const std::vector<float>>(std::move(states));
  return out;
}

}  // namespace gabbro::pictures
