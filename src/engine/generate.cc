#include "gabbro/engine/generate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "src/base/error.h"
#include "src/text/stop_matcher.h"
#include "src/text/tokenizer.h"
#include "src/text/utf8_stream.h"

namespace gabbro {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A control token in the stream that is searched for stop texts: a byte that UTF-8 does not have, then four that no
// text begins with. Vocabularies have at most 2^24 tokens.
constexpr char kControlMark = '\xFF';
constexpr size_t kControlCodeSize = 5;

std::string control_code(int32_t token) {
  std::string code(1, kControlMark);
  for (int shift = 18; shift >= 0; shift -= 6) code += static_cast<char>(0x80 | (token >> shift & 0x3F));
  return code;
}

std::string without_control_codes(std::string text) {
  for (size_t at = text.find(kControlMark); at != text.npos; at = text.find(kControlMark, at))
    text.erase(at, kControlCodeSize);
  return text;
}

// The stop texts, and again those that name control tokens, with codes for these: models write them as tokens or, more
// rarely, as text.
std::vector<std::string> with_control_codes(std::vector<std::string> stops, const text::Tokenizer& tokenizer) {
  const size_t count = stops.size();
  for (size_t i = 0; i < count; ++i) {
    std::string coded;
    for (const text::Fragment& fragment : tokenizer.split_special(stops[i])) {
      if (fragment.token == text::kNoToken) {
        coded += fragment.text;
      } else {
        coded += tokenizer.is_control(fragment.token) ? control_code(fragment.token) : tokenizer.piece(fragment.token);
      }
    }
    if (coded.find(kControlMark) != coded.npos) stops.push_back(std::move(coded));
  }
  return stops;
}

// Tokens become bytes, bytes become whole characters, and characters pass once no stop text can begin in them.
class TextOutput {
 public:
  TextOutput(const text::Tokenizer& tokenizer, const GenerateOptions& options,
             const std::function<void(std::string_view)>& on_text)
      : tokenizer_(tokenizer), on_text_(on_text) {
    const std::vector<std::string> stops = with_control_codes(options.stop, tokenizer);
    has_control_stops_ = stops.size() > options.stop.size();
    stops_.emplace(stops);
  }

  // False when a stop text was completed.
  bool add(int32_t token) {
    // The output head may have more rows than the vocabulary has tokens, for a round number: those are no text.
    if (token >= tokenizer_.size()) return true;
    if (!tokenizer_.is_control(token)) {
      pass(stops_->push(characters_.push(tokenizer_.piece(token))));
    } else if (has_control_stops_) {
      pass(stops_->push(characters_.flush()));
      pass(stops_->push(control_code(token)));
    }
    return !stops_->stopped();
  }

  std::string finish() {
    if (!stops_->stopped()) pass(stops_->push(characters_.flush()));
    if (!stops_->stopped()) pass(stops_->flush());
    return std::move(text_);
  }

 private:
  void pass(std::string text) {
    if (has_control_stops_) text = without_control_codes(std::move(text));
    if (text.empty()) return;
    text_ += text;
    if (on_text_) on_text_(text);
  }

  const text::Tokenizer& tokenizer_;
  text::Utf8Stream characters_;
  std::optional<text::StopMatcher> stops_;
  bool has_control_stops_ = false;  // control tokens are searched for, though they are never shown
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
        trained_for_more
            ? fmt::format("shorten the prompt, or start with a larger --ctx; this model was trained for {}",
                          facts.context_trained)
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
    if (cancel != nullptr && *cancel) return StopReason::kCanceled;
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
    case StopReason::kCanceled:
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
    result.stop_reason = StopReason::kCanceled;
  }
  *spent = seconds_since(start);
  result.text = output.finish();
  return result;
}

}  // namespace gabbro
