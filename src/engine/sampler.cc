// The chain: bias, penalties (sampling/penalties.h), top-k, truncations (sampling/truncation.h), temperature, draw.
// With mirostat, as its authors and llama.cpp define it: bias, penalties, temperature, mirostat, draw.
#include "gabbro/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "src/base/error.h"
#include "src/engine/sampling/candidates.h"
#include "src/engine/sampling/draws.h"
#include "src/engine/sampling/mirostat.h"
#include "src/engine/sampling/penalties.h"
#include "src/engine/sampling/row.h"
#include "src/engine/sampling/scores.h"
#include "src/engine/sampling/sequence_breakers.h"
#include "src/engine/sampling/truncation.h"

namespace gabbro {
namespace {

void check(const SamplingOption& option, double value) {
  if (value >= option.least && value <= option.most) return;
  // A float that was 0.01 in decimal digits is less than the double 0.01.
  if (!option.is_integer() && value == static_cast<double>(static_cast<float>(option.least))) return;
  std::string name = option.name;
  std::ranges::replace(name, '_', '-');
  if (option.most == kUnbounded) throw bad_input("{} must be {} or more, not {}", name, option.least, value);
  throw bad_input("{} must be {} from {} to {}, not {}", name, option.is_integer() ? "a whole number" : "a number",
                  option.least, option.most, value);
}

void check(const SamplerOptions& o, int64_t vocabulary) {
  for (const SamplingOption& option : kSamplingOptions) check(option, option.get(o));
  for (const std::string& breaker : o.dry_sequence_breakers) {
    if (breaker.empty() || breaker.size() > sampling::kLongestBreaker) {
      throw bad_input("dry-sequence-breaker must be 1 to {} bytes long, not {}", sampling::kLongestBreaker,
                      breaker.size());
    }
  }
  if (o.top_logprobs < -1) throw bad_input("top-logprobs must be at least -1, not {}", o.top_logprobs);
  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      throw bad_input("logit-bias: token {} is outside the vocabulary of {} tokens", token, vocabulary);
    }
    if (!(bias < HUGE_VALF)) throw bad_input("logit-bias of token {} must be a number or -inf, not {}", token, bias);
  }
}

bool penalizes(const SamplerOptions& o) {
  return std::ranges::any_of(sampling::penalties(), [&](const auto& step) { return step.is_on(o); });
}

// Sets the logits of tokens without a bit to -inf.
void keep_allowed(std::span<float> logits, std::span<const uint64_t> words) {
  for (size_t begin = 0, word = 0; begin < logits.size(); begin += 64, ++word) {
    const uint64_t bits = word < words.size() ? words[word] : 0;
    if (bits == ~uint64_t{0}) continue;
    const size_t count = std::min<size_t>(64, logits.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      if ((bits >> i & 1) == 0) logits[begin + i] = -HUGE_VALF;
    }
  }
}

uint64_t random_seed() {
  std::random_device device;
  const uint64_t seed = uint64_t{device()} << 32 | device();
  return seed ? seed : 1;
}

}  // namespace

struct Sampler::State {
  SamplerOptions options;
  sampling::History history;
  sampling::SequenceBreakers breakers;
  std::optional<sampling::Mirostat> mirostat;
  sampling::Draws draws;
  std::vector<float> edited;
  sampling::Candidates candidates;
  std::vector<int32_t> banned;
  std::vector<uint64_t> allowed;  // empty: all tokens
  std::function<void()> prepare;  // before the next choice; or empty
  TokenScore score;

  int64_t vocabulary;

  State(const SamplerOptions& o, int64_t v) : options(o), history(o.penalty_window), draws(o.seed), vocabulary(v) {}

  void get_ready() {
    if (const auto wanted = std::exchange(prepare, {})) wanted();
  }
  int32_t choose(std::span<const float> logits);
  std::span<const float> edit(std::span<const float> logits);
  void truncate(std::span<const float> logits);
  void apply_temperature();
  const sampling::Candidate& draw();
};

// The logits after bias and penalties. Copied only if a step changes them.
std::span<const float> Sampler::State::edit(std::span<const float> logits) {
  const bool penalized = !history.tokens().empty() && penalizes(options);
  if (options.logit_bias.empty() && !penalized && banned.empty() && allowed.empty()) return logits;
  edited.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : options.logit_bias) edited[static_cast<size_t>(token)] += bias;
  if (penalized) {
    for (const sampling::Penalty& step : sampling::penalties()) {
      if (step.is_on(options)) step.apply(edited, history, breakers, options);
    }
  }
  for (const int32_t token : banned) edited[static_cast<size_t>(token)] = -HUGE_VALF;
  if (!allowed.empty()) keep_allowed(edited, allowed);
  return edited;
}

void Sampler::State::truncate(std::span<const float> logits) {
  candidates.assign_top(logits, mirostat ? 0 : options.top_k);
  if (candidates.items.empty() || mirostat) return;
  for (const sampling::Truncation& step : sampling::truncations()) {
    if (step.is_on(options)) step.apply(candidates, options, draws);
  }
}

// Relative to the largest, so that no temperature makes a logit overflow.
void Sampler::State::apply_temperature() {
  const float largest = candidates.max_logit();
  for (auto& c : candidates.items) c.logit = (c.logit - largest) / options.temperature;
}

const sampling::Candidate& Sampler::State::draw() {
  double left = draws.uniform();
  for (const auto& c : candidates.items) {
    left -= c.probability;
    if (left < 0) return c;
  }
  return candidates.items.front();  // rounding left a sliver: the most likely one takes it
}

Sampler::Sampler(const SamplerOptions& options, int64_t vocabulary, const text::Tokenizer* tokenizer) {
  check(options, vocabulary);
  SamplerOptions seeded = options;
  if (seeded.seed == 0) seeded.seed = random_seed();
  state_ = std::make_unique<State>(seeded, vocabulary);
  if (options.dry_multiplier > 0 && tokenizer != nullptr) {
    state_->breakers = sampling::SequenceBreakers(*tokenizer, options.dry_sequence_breakers);
  }
  if (options.mirostat != 0) {
    state_->mirostat.emplace(options.mirostat, options.mirostat_tau, options.mirostat_eta, vocabulary);
  }
}

Sampler::~Sampler() = default;

namespace {

Error no_number(int64_t logits) {
  return Error(ErrorCode::kFailed,
               fmt::format("the model's output is not a number (all {} logits are NaN or -inf)", logits),
               "its file may be damaged: gabbro inspect MODEL --check reads all of it");
}

}  // namespace

int32_t Sampler::sample(std::span<const float> logits) { return taken(sample_if_any(logits)); }

int32_t Sampler::sample_if_any(std::span<const float> logits) {
  State& s = *state_;
  if (std::ssize(logits) != s.vocabulary) {
    throw bad_input("the sampler was made for {} tokens, not for {} logits", s.vocabulary, logits.size());
  }
  s.get_ready();
  const int32_t chosen = s.choose(logits);
  if (s.options.top_logprobs >= 0 && chosen >= 0)
    s.score = sampling::score_of(logits, chosen, static_cast<size_t>(s.options.top_logprobs));
  return chosen;
}

int32_t Sampler::State::choose(std::span<const float> logits) {
  const auto changed = edit(logits);
  if (options.temperature == 0) return sampling::argmax(changed);
  truncate(changed);
  if (candidates.items.empty()) return -1;
  apply_temperature();
  if (mirostat) {
    mirostat->truncate(candidates);
  } else {
    candidates.softmax();
  }
  const sampling::Candidate& chosen = draw();
  if (mirostat) mirostat->observe(chosen.probability);
  return chosen.id;
}

const TokenScore& Sampler::last_score() const { return state_->score; }

void Sampler::ban(std::vector<int32_t> tokens) { state_->banned = std::move(tokens); }

void Sampler::allow(std::vector<uint64_t> words) { state_->allowed = std::move(words); }

void Sampler::prepare_later(std::function<void()> prepare) { state_->prepare = std::move(prepare); }

bool Sampler::has_mask() const { return state_->prepare || !state_->allowed.empty(); }

int32_t Sampler::taken(int32_t largest) const {
  if (largest < 0) throw no_number(state_->vocabulary);
  return largest;
}

sampling::Row Sampler::row(int ahead, bool takes_masks) const {
  if (ahead == 0) state_->get_ready();
  if (is_greedy()) return {};
  const SamplerOptions& o = state_->options;
  const bool counts_matter = sampling::penalizes_counts(o);
  sampling::Row row{.on_device = sampling::can_sample_on_device(o) && (ahead == 0 || !counts_matter)};
  if (has_mask()) row.on_device = row.on_device && takes_masks && ahead == 0;
  if (!row.on_device) return row;
  if (has_mask()) row.allowed = &state_->allowed;
  const float log_min_p = o.min_p > 0 ? std::log(o.min_p) : -HUGE_VALF;
  row.settings = {o.temperature,    static_cast<float>(o.top_k), o.top_p,           log_min_p,
                  o.repeat_penalty, o.frequency_penalty,         o.presence_penalty};
  if (o.temperature > 0) row.draw = state_->draws.peek(static_cast<size_t>(ahead));
  std::map<int32_t, sampling::Edit> edits;
  for (const auto& [token, bias] : o.logit_bias) edits[token] = {.token = token, .count = 0, .bias = bias};
  if (counts_matter) {
    for (const auto& [token, count] : state_->history.counts()) {
      sampling::Edit& edit = edits[token];
      edit.token = token;
      edit.count = count;
    }
  }
  for (const int32_t token : state_->banned) {
    edits[token].token = token;
    edits[token].bias = -HUGE_VALF;
  }
  row.on_device = edits.size() <= sampling::kMostEdits;
  for (const auto& [token, edit] : edits) row.edits.push_back(edit);
  return row;
}

void Sampler::take_draw() {
  if (state_->options.temperature > 0) state_->draws.next();
}

void Sampler::accept(int32_t token) {
  if (token < 0 || token >= state_->vocabulary) {
    throw bad_input("token {} is outside the vocabulary of {} tokens", token, state_->vocabulary);
  }
  state_->history.accept(token);
}

uint64_t Sampler::seed() const { return state_->options.seed; }

bool Sampler::is_greedy() const {
  const SamplerOptions& o = state_->options;
  return o.temperature == 0 && o.logit_bias.empty() && !penalizes(o) && o.top_logprobs < 0 && state_->banned.empty() &&
         !has_mask();
}

}  // namespace gabbro
