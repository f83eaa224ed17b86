// One generation as a state machine: it says which tokens its sequence needs next, and takes the logits after them. A
// command line drives one, a batch many.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gabbro/engine/generate.h"
#include "gabbro/engine/sampler.h"
#include "src/engine/generation_loop.h"

namespace gabbro {

class Request {
 public:
  // Throws bad_input for a prompt that is empty or longer than the context, and for options that no sampler takes.
  // `on_text` gets whole characters, as soon as no stop text can contain them.
  Request(const Engine& engine, std::vector<int32_t> prompt, const GenerateOptions& options,
          std::function<void(std::string_view)> on_text = {});
  ~Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) = delete;

  // The prompt and the tokens chosen after it; valid until the next token is chosen.
  std::span<const int32_t> text() const;
  std::span<const int32_t> prompt() const;
  // Scores of tokens whose text is certain come before that text; for options that give scores.
  void listen_to_scores(std::function<void(std::span<const TokenScore>)> on_scores);
  // Whether the logits of all rows of the prompt are wanted, by score_prompt().
  bool scores_prompt() const;
  // `logits` [rows, V] follow the tokens of the prompt from `first` on.
  void score_prompt(int64_t first, std::span<const float> logits);
  // The sequence already holds the first `count` tokens of the prompt, but not all.
  void skip(int64_t count);
  int64_t held() const;  // tokens of the prompt that were skipped or appended
  // The sequence lost its tokens. A prompt that was not complete begins again.
  void rewind();

  bool finished() const;
  // The tokens to append next: the rest of the prompt, or the token that was chosen last. Empty when it is finished.
  std::span<const int32_t> pending() const;
  // The first `count` of them were appended. `logits` [V] follow the last of them, and are needed only if `count` is
  // all.
  void appended(size_t count, std::span<const float> logits);
  // As above, with the token that was chosen from these logits: by sampler(), or the largest for a request that
  // is_greedy(). -1 if no logit is a number.
  void appended(size_t count, int32_t chosen);
  bool is_greedy() const;
  // The sampler of the next token, for a step that completes the text: it has seen all of it. A token that a device
  // chooses with it goes to appended().
  Sampler* sampler();
  // Whether its text obeys a grammar.
  bool is_constrained() const;
  // The number of these tokens that may follow in sequence; without a grammar all.
  size_t allowed(std::span<const int32_t> tokens) const;
  // Tokens of the text that the grammar leaves no choice about, as the tokenizer cuts it; drafts of the next tokens.
  std::vector<int32_t> forced_tokens(size_t most) const;
  // Past its prompt, and with room for another token after the next one, which alone can still end it.
  bool goes_on() const;
  // Tokens that its text is forecast to have: with half of what it may still generate, 512 tokens at most. At least one
  // more than now, and never more than the context.
  int64_t forecast_length() const;
  void cancel();
  void fill_context();  // ends it as the end of the context does

  void speculated(int64_t drafted, int64_t accepted);

  GenerateResult take();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
