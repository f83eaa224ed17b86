// The generation loop: prompt in, text out as it comes, until a stop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gabbro/engine/sampler.h"
#include "gabbro/engine/session.h"
#include "gabbro/output_format.h"

namespace gabbro {

class Drafter;  // src/engine/speculation.h

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

// Thoughts at the begin of a text are closed when they have taken this many tokens.
struct ThoughtLimit {
  int tokens = -1;              // -1: no limit
  std::string open{}, close{};  // text around thoughts
  std::string closing{};        // text that closes them; `close` is in it
  std::string soft_closing{};   // comes first, if not empty: thoughts that begin after it are closed at once
  bool is_open = false;         // the prompt has opened them
};

struct GenerateOptions {
  int max_tokens = -1;              // -1: until the model stops or the context is full
  int min_tokens = 0;               // before these neither end-of-generation tokens nor stop texts end it
  std::vector<std::string> stop{};  // texts, or names of control tokens, that end the generation; not in the result
  SamplerOptions sampler{};
  std::vector<std::string> shown_controls{};  // names of control tokens that the text spells out; others are left out
  OutputFormat format{};                      // the text obeys it, and ends once nothing can follow
  ThoughtLimit thoughts{};
  bool ignore_end = false;             // for benchmarks: end-of-generation tokens do not stop
  bool scores_prompt = false;          // with sampler.top_logprobs; computes the whole prompt, without what is cached
  std::shared_ptr<Drafter> drafter{};  // null: one token a pass
};

enum class StopReason { kEndOfGeneration, kMaxTokens, kStopText, kContextFull, kCanceled };
const char* stop_reason_name(StopReason reason);  // "eos", "length", "stop", "context", "cancelled"

struct GenerateResult {
  std::string text;  // valid UTF-8
  std::vector<int32_t> token_ids;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;    // prompt tokens that the session already held
  int64_t passes = 0;           // over the weights, after the prompt's
  int64_t drafted_tokens = 0;   // that a drafter proposed
  int64_t accepted_tokens = 0;  // of these, that the model chose
  double prefill_seconds = 0;
  double decode_seconds = 0;
  StopReason stop_reason = StopReason::kEndOfGeneration;
  std::string stop_text{};                  // of GenerateOptions::stop, that ended it; else empty
  std::vector<TokenScore> scores{};         // of the text's tokens, where the sampler gives scores
  std::vector<TokenScore> prompt_scores{};  // of the prompt's tokens from the second on, where they are wanted
};

// Makes the session hold `prompt` (reusing the longest common prefix with what it holds), then generates. `on_text`
// gets whole characters once they are certain. When `cancel` becomes true, returns the result so far, with
// kCanceled.
GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text = {},
                        const std::atomic<bool>* cancel = nullptr);

}  // namespace gabbro
#pragma GCC visibility pop
