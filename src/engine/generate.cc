#include "src/engine/generate.h"

#include <algorithm>
#include <chrono>

#include "src/base/error.h"
#include "src/text/stop_matcher.h"
#include "src/text/tokenizer.h"
#include "src/text/utf8_stream.h"

namespace gabbro {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Tokens become bytes, bytes become whole characters, and characters pass once no stop text can begin in them.
class TextOutput {
 public:
  TextOutput(const text::Tokenizer& tokenizer, const GenerateOptions& options,
             const std::function<void(std::string_view)>& on_text)
      : tokenizer_(tokenizer), stops_(options.stop), on_text_(on_text) {}

  // False when a stop text was completed.
  bool add(int32_t token) {
    // The output head may have more rows than the vocabulary has tokens, for a round number: those are no text.
    if (token < tokenizer_.size() && !tokenizer_.is_control(token))
      pass(stops_.push(characters_.push(tokenizer_.piece(token))));
    return !stops_.stopped();
  }

  std::string finish() {
    if (!stops_.stopped()) pass(stops_.push(characters_.flush()));
    if (!stops_.stopped()) pass(stops_.flush());
    return std::move(text_);
  }

 private:
  void pass(std::string_view text) {
    if (text.empty()) return;
    text_ += text;
    if (on_text_) on_text_(text);
  }

  const text::Tokenizer& tokenizer_;
  text::Utf8Stream characters_;
  text::StopMatcher stops_;
  const std::function<void(std::string_view)>& on_text_;
  std::string text_;
};

void check_prompt(std::span<const int32_t> prompt, const ModelFacts& facts) {
  if (prompt.empty()) throw bad_input("the prompt is empty");
  if (std::ssize(prompt) > facts.context) {
    const bool trained_for_more = facts.context < facts.context_trained;
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("the prompt has {} tokens, more than the context of {} holds", prompt.size(), facts.context),
        trained_for_more ? fmt::format("--ctx N makes it larger; this model was trained for {}", facts.context_trained)
                         : "shorten the prompt");
  }
}

// Makes the session hold `prompt`, keeping what both begin with; the last token always runs, for its logits.
std::span<const float> prefill(Session& session, std::span<const int32_t> prompt, GenerateResult& result,
                               const std::atomic<bool>* cancel) {
  const auto held = session.tokens();
  const auto [differs, unused] = std::mismatch(prompt.begin(), prompt.end() - 1, held.begin(), held.end());
  result.cached_tokens = differs - prompt.begin();
  session.truncate(result.cached_tokens);
  return session.append(prompt.subspan(static_cast<size_t>(result.cached_tokens)), cancel);
}

// Tokens until something ends the generation, and what did.
StopReason decode(Session& session, std::span<const float> logits, Sampler& sampler, const GenerateOptions& options,
                  const std::atomic<bool>* cancel, TextOutput& output, std::vector<int32_t>& token_ids) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  const int64_t context = session.engine().facts().context;
  while (options.max_tokens < 0 || std::ssize(token_ids) < options.max_tokens) {
    if (cancel != nullptr && *cancel) return StopReason::kCancelled;
    const int32_t token = sampler.sample(logits);
    if (!options.ignore_end && tokenizer.is_end_of_generation(token)) return StopReason::kEndOfGeneration;
    sampler.accept(token);
    token_ids.push_back(token);
    if (!output.add(token)) return StopReason::kStopText;
    if (std::ssize(token_ids) == options.max_tokens) return StopReason::kMaxTokens;
    if (std::ssize(session.tokens()) >= context) return StopReason::kContextFull;
    logits = session.append({&token, 1}, cancel);
  }
  return StopReason::kMaxTokens;
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfGeneration:
      return "eos";
    case StopReason::kMaxTokens:
      return "length";
    case StopReason::kStopText:
      return "stop";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  const ModelFacts& facts = session.engine().facts();
  check_prompt(prompt, facts);
  Sampler sampler(options.sampler, facts.vocabulary, &session.engine().tokenizer());
  TextOutput output(session.engine().tokenizer(), options, on_text);
  GenerateResult result;
  result.prompt_tokens = std::ssize(prompt);

  auto start = Clock::now();
  double* spent = &result.prefill_seconds;
  try {
    const auto logits = prefill(session, prompt, result, cancel);
    result.prefill_seconds = seconds_since(start);
    start = Clock::now();
    spent = &result.decode_seconds;
    for (const int32_t token : prompt) sampler.accept(token);
    result.stop_reason = decode(session, logits, sampler, options, cancel, output, result.token_ids);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    result.stop_reason = StopReason::kCancelled;
  }
  *spent = seconds_since(start);
  result.text = output.finish();
  return result;
}

}  // namespace gabbro
