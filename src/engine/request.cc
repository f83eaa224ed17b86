#include "src/engine/request.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/engine/output_text.h"
#include "src/engine/sampling/scores.h"
#include "src/engine/thought_watch.h"
#include "src/text/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

using Clock = std::chrono::steady_clock;

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

}  // namespace

void check_request(const GenerationRequest& request, const ModelFacts& facts, const text::Tokenizer& tokenizer) {
  check_prompt(request.prompt, facts);
  if (request.priority < kLowestPriority || request.priority > kHighestPriority)
    throw bad_input("the priority {} is not from {} to {}", request.priority, kLowestPriority, kHighestPriority);
  Sampler(request.options.sampler, facts.vocabulary, &tokenizer);
  if (!request.options.format.is_text()) static_cast<void>(tokenizer.grammars().matcher(request.options.format));
}

struct Request::State {
  State(const Engine& model, std::vector<int32_t> tokens, const GenerateOptions& chosen,
        std::function<void(std::string_view)> listener)
      : engine(model),
        text(std::move(tokens)),
        prompt_tokens(text.size()),
        options(chosen),
        on_text(std::move(listener)),
        sampler(options.sampler, engine.facts().vocabulary, &engine.tokenizer()),
        output(engine.tokenizer(), options, on_text),
        thoughts(options.thoughts, engine.tokenizer()) {
    check_prompt(text, engine.facts());
    result.prompt_tokens = std::ssize(text);
    if (options.min_tokens > 0) forbid_end();
    if (!options.format.is_text()) matcher = engine.tokenizer().grammars().matcher(options.format);
    thoughts.begin(may_follow);
  }

  void forbid_end() {
    std::vector<int32_t> ends = engine.tokenizer().end_of_generation();
    std::erase_if(ends, [&](int32_t token) { return token < 0 || token >= engine.facts().vocabulary; });
    sampler.ban(std::move(ends));
  }

  // Lets the sampler choose only tokens that may follow.
  void apply_grammar();

  void finish(StopReason reason) {
    result.stop_reason = reason;
    finished = true;
  }
  bool takes(size_t count);
  void read_prompt();  // by the sampler
  int64_t chosen_tokens() const { return static_cast<int64_t>(text.size() - prompt_tokens); }
  // The next token, as sample() gives it, unless the generation ends.
  template <class Sample>
  void choose(Sample sample);

  const Engine& engine;
  std::vector<int32_t> text;  // the prompt, and what was chosen after it
  const size_t prompt_tokens;
  const GenerateOptions options;
  const std::function<void(std::string_view)> on_text;
  Sampler sampler;
  OutputText output;
  GenerateResult result;
  size_t held = 0;  // tokens of the prompt that the sequence has
  bool finished = false, is_prompt_read = false;
  std::optional<text::grammar::Matcher> matcher;  // of a text that obeys a grammar
  bool is_grammar_applied = false;                // to the next token
  std::exception_ptr grammar_error;               // of applying it before a choice of many requests
  ThoughtWatch thoughts;
  const ThoughtWatch::MayFollow may_follow = [this](std::span<const int32_t> tokens) {
    return !matcher || matcher->allowed(tokens) == tokens.size();
  };
  bool is_mask_of_thoughts = false;  // the sampler has one
  Clock::time_point start = Clock::now();
};

template <class Sample>
void Request::State::choose(Sample sample) {
  if (options.max_tokens >= 0 && chosen_tokens() >= options.max_tokens) return finish(StopReason::kMaxTokens);
  if (grammar_error) std::rethrow_exception(grammar_error);
  apply_grammar();
  const int32_t sampled = sample();
  const int32_t token = thoughts.forced().value_or(sampled);
  if ((!options.ignore_end || matcher) && engine.tokenizer().is_end_of_generation(token))
    return finish(StopReason::kEndOfGeneration);
  sampler.accept(token);
  text.push_back(token);
  is_grammar_applied = false;
  if (matcher && !matcher->accept(token)) throw failed("token {} was chosen against the grammar", token);
  thoughts.follow(token, may_follow);
  if (chosen_tokens() == options.min_tokens) sampler.ban({});
  const TokenScore* const score = options.sampler.top_logprobs >= 0 ? &sampler.last_score() : nullptr;
  if (!output.add(token, chosen_tokens() > options.min_tokens || options.min_tokens <= 0, score))
    return finish(StopReason::kStopText);
  if (matcher && matcher->is_complete()) return finish(StopReason::kEndOfGeneration);
  if (chosen_tokens() == options.max_tokens) return finish(StopReason::kMaxTokens);
  if (std::ssize(text) - 1 >= engine.facts().context) finish(StopReason::kContextFull);
}

void Request::State::apply_grammar() {
  if (const std::optional<int32_t> forced = thoughts.forced()) {
    std::vector<uint64_t> words((static_cast<size_t>(engine.facts().vocabulary) + 63) / 64);
    words[static_cast<size_t>(*forced) / 64] |= uint64_t{1} << (*forced % 64);
    is_mask_of_thoughts = true;
    return sampler.allow(std::move(words));
  }
  if (std::exchange(is_mask_of_thoughts, false)) sampler.allow({});
  if (!matcher || is_grammar_applied) return;
  const std::span<const uint64_t> mask = matcher->mask()->words();
  std::vector<uint64_t> words(mask.begin(), mask.end());
  if (matcher->may_end()) {
    for (const int32_t end : engine.tokenizer().end_of_generation())
      words[static_cast<size_t>(end) / 64] |= uint64_t{1} << (end % 64);
  }
  if (std::ranges::all_of(words, [](uint64_t word) { return word == 0; }))
    throw bad_input("the grammar allows a text that the model's vocabulary cannot write");
  sampler.allow(std::move(words));
  is_grammar_applied = true;
}

Request::Request(const Engine& engine, std::vector<int32_t> prompt, const GenerateOptions& options,
                 std::function<void(std::string_view)> on_text)
    : state_(std::make_unique<State>(engine, std::move(prompt), options, std::move(on_text))) {}
Request::~Request() = default;
Request::Request(Request&&) noexcept = default;

std::span<const int32_t> Request::text() const { return state_->text; }
std::span<const int32_t> Request::prompt() const { return text().first(state_->prompt_tokens); }

void Request::listen_to_scores(std::function<void(std::span<const TokenScore>)> on_scores) {
  state_->output.listen_to_scores(std::move(on_scores));
}

bool Request::scores_prompt() const {
  return state_->options.scores_prompt && state_->options.sampler.top_logprobs >= 0;
}

void Request::score_prompt(int64_t first, std::span<const float> logits) {
  State& s = *state_;
  const auto width = static_cast<size_t>(s.engine.facts().vocabulary);
  for (size_t row = 0, next = static_cast<size_t>(first) + 1; row < logits.size() / width; ++row, ++next) {
    if (next >= s.prompt_tokens) break;
    s.result.prompt_scores.push_back(sampling::score_of(logits.subspan(row * width, width), s.text[next],
                                                        static_cast<size_t>(s.options.sampler.top_logprobs)));
  }
}

void Request::skip(int64_t count) {
  state_->result.cached_tokens += count - static_cast<int64_t>(state_->held);
  state_->held = static_cast<size_t>(count);
}

int64_t Request::held() const { return static_cast<int64_t>(state_->held); }

void Request::rewind() {
  State& s = *state_;
  if (s.held >= s.prompt_tokens) return;
  s.held = 0;
  s.result.prompt_scores.clear();
}

bool Request::finished() const { return state_->finished; }

std::span<const int32_t> Request::pending() const {
  const State& s = *state_;
  if (s.finished) return {};
  return s.held < s.prompt_tokens ? prompt().subspan(s.held) : text().last(1);
}

// Whether a token follows these.
bool Request::State::takes(size_t count) {
  if (held == prompt_tokens) return true;
  held += count;
  if (held < prompt_tokens) return false;
  result.prefill_seconds = seconds_since(start);
  start = Clock::now();
  read_prompt();
  return true;
}

void Request::appended(size_t count, std::span<const float> logits) {
  State& s = *state_;
  if (s.takes(count)) s.choose([&] { return s.sampler.sample(logits); });
}

void Request::appended(size_t count, int32_t chosen) {
  State& s = *state_;
  if (s.takes(count)) s.choose([&] { return s.sampler.taken(chosen); });
}

Sampler* Request::sampler() {
  State& s = *state_;
  s.read_prompt();
  if (s.is_mask_of_thoughts || s.thoughts.forced() || s.matcher) {
    s.sampler.prepare_later([&s] {
      try {
        s.apply_grammar();
      } catch (...) {  // an error of this request alone
        s.grammar_error = std::current_exception();
        s.sampler.allow({});
      }
    });
  }
  return &s.sampler;
}

void Request::State::read_prompt() {
  if (std::exchange(is_prompt_read, true)) return;
  for (const int32_t token : std::span(text).first(prompt_tokens)) sampler.accept(token);
}

bool Request::is_greedy() const {
  return !state_->matcher && !state_->thoughts.forced() && state_->sampler.is_greedy();
}

bool Request::is_constrained() const { return state_->matcher.has_value(); }

size_t Request::allowed(std::span<const int32_t> tokens) const {
  if (state_->thoughts.forced()) return 0;
  return state_->matcher ? state_->matcher->allowed(tokens) : tokens.size();
}

std::vector<int32_t> Request::forced_tokens(size_t most) const {
  constexpr size_t kLongestText = 256;
  const State& s = *state_;
  if (!s.matcher || s.finished || s.held < s.prompt_tokens) return {};
  const std::string forced = s.matcher->forced_text(kLongestText);
  if (forced.empty()) return {};
  const bool has_controls = !s.options.format.controls.empty();
  std::vector<int32_t> tokens =
      s.engine.tokenizer().encode(forced, {.add_special = false, .parse_special = has_controls, .threads = 1});
  if (!tokens.empty()) tokens.pop_back();  // the last one may be longer than the forced text
  tokens.resize(std::min(s.matcher->allowed(tokens), most));
  return tokens;
}

bool Request::goes_on() const {
  const State& s = *state_;
  constexpr int kQueued = 3;  // tokens that may be chosen before a step is planned without a queue
  if (s.finished || s.matcher || s.held < s.prompt_tokens || s.thoughts.may_force_within(kQueued)) return false;
  const int64_t chosen = s.chosen_tokens() + 1;
  if (s.options.max_tokens >= 0 && chosen >= s.options.max_tokens) return false;
  return std::ssize(s.text) + 1 <= s.engine.facts().context;
}

void Request::speculated(int64_t drafted, int64_t accepted) {
  state_->result.drafted_tokens += drafted;
  state_->result.accepted_tokens += accepted;
  ++state_->result.passes;
}

int64_t Request::forecast_length() const {
  constexpr int64_t kMostForecast = 512;
  const int64_t now = std::ssize(state_->text), context = state_->engine.facts().context;
  int64_t left = context - now;
  if (const int64_t most = state_->options.max_tokens; most >= 0) left = std::min(left, most - state_->chosen_tokens());
  return std::min(now + std::clamp(left / 2, int64_t{1}, kMostForecast), context);
}

void Request::fill_context() {
  if (!state_->finished) state_->finish(StopReason::kContextFull);
}

void Request::cancel() { state_->finish(StopReason::kCanceled); }

GenerateResult Request::take() {
  State& s = *state_;
  (s.held < s.prompt_tokens ? s.result.prefill_seconds : s.result.decode_seconds) = seconds_since(s.start);
  s.result.text = s.output.finish();
  s.result.stop_text = s.output.stop_text();
  s.result.scores = s.output.take_scores();
  s.result.token_ids.assign(s.text.begin() + std::ssize(prompt()), s.text.end());
  return std::move(s.result);
}

}  // namespace gabbro
