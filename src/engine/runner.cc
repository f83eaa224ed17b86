#include "src/engine/runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/largest_ids.h"
#include "src/engine/sampling/candidates.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {

void check_room(const Engine& engine, int64_t length, std::span<const int32_t> more) {
  if (more.empty()) throw bad_input("no tokens to append");
  const ModelFacts& facts = engine.facts();
  for (const int32_t token : more) {
    if (token < 0 || token >= facts.vocabulary)
      throw bad_input("token {} is outside the vocabulary of {} tokens", token, facts.vocabulary);
  }
  if (length + std::ssize(more) > facts.context) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} tokens are more than the context of {} holds", length + std::ssize(more), facts.context),
        fmt::format("the model was trained with {}: choose with --ctx", facts.context_trained));
  }
}

Runner::Runner(std::shared_ptr<Engine> engine) : Runner(engine, *engine->state_->pass) {}

Runner::Runner(std::shared_ptr<Engine> engine, ModelPass& pass)
    : engine_(std::move(engine)), pass_(pass), copy_(engine_->state_->loaded.output_device()) {}

Runner::~Runner() = default;

int64_t Runner::prompt_chunk() const { return pass_.prompt_chunk(); }

std::span<const float> Runner::step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  std::span<const float> logits;
  run_step(
      chunks, cancel, [&] { logits = host(decode(chunks, cancel), std::ssize(chunks), cancel); },
      [&](const Tensor& result, int64_t rows) { logits = host(result, rows, cancel); });
  return logits;
}

std::span<const int32_t> Runner::step_greedy(std::span<const Chunk> chunks, const std::atomic<bool>* cancel,
                                             bool goes_on) {
  std::span<const int32_t> ids;
  run_step(
      chunks, cancel, [&] { ids = decode_greedy(chunks, goes_on, cancel); },
      [&](const Tensor& logits, int64_t rows) { ids = largest(logits, rows, cancel); });
  return ids;
}

bool Runner::find_largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel) {
  if (engine_->state_->loaded.output_device()->host_accessible()) return false;
  const Tensor found = largest_ids(logits);
  eval(std::span(&found, 1));
  const auto count = static_cast<size_t>(rows);
  const void* const memory = copy_.of(found.state().storage.get(), count * sizeof(int32_t), cancel);
  if (!take_found({static_cast<const int32_t*>(memory), count})) return false;
  logits_ = logits;
  return true;
}

bool Runner::take_found(std::span<const int32_t> ids) {
  if (std::ranges::any_of(ids, [](int32_t id) { return id < 0; })) return false;
  greedy_.assign(ids.begin(), ids.end());
  return true;
}

std::span<const int32_t> Runner::largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel) {
  greedy_.clear();
  if (!logits.defined() || find_largest(logits, rows, cancel)) return greedy_;
  const std::span<const float> all = host(logits, rows, cancel);
  const auto row = static_cast<size_t>(engine_->state_->loaded.facts.vocabulary);
  for (size_t at = 0; at < all.size(); at += row) greedy_.push_back(sampling::argmax(all.subspan(at, row)));
  return greedy_;
}

void Runner::run_step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel,
                      const std::function<void()>& decode_one,
                      const std::function<void(const Tensor& logits, int64_t rows)>& finish) {
  Engine::State& shared = *engine_->state_;
  const std::lock_guard lock(shared.mutex);
  std::set<const Sequence*> seen;
  int64_t rows = 0;
  bool single_tokens = pass_.decodes();
  for (const Chunk& chunk : chunks) {
    check_room(*engine_, std::ssize(chunk.sequence->tokens_), chunk.tokens);
    if (chunk.sequence->engine_ != engine_ || !seen.insert(chunk.sequence).second)
      throw bad_input("a step takes each sequence of its engine once, and no other sequence");
    rows += chunk.wanted();
    single_tokens = single_tokens && chunk.tokens.size() == 1 && chunk.rows != Chunk::Rows::kNone;
  }
  if (chunks.empty()) return;
  shared.loaded.files.require_unchanged();
  try {
    std::vector<Sequence*> sequences;
    for (const Chunk& chunk : chunks) {
      chunk.sequence->set_rotation(rotation_with(chunk));
      chunk.sequence->add_to_text(std::ssize(chunk.tokens));
      sequences.push_back(chunk.sequence);
    }
    compute_again(sequences, cancel);
    std::vector<Part> parts;
    for (const Chunk& chunk : chunks) {
      const int64_t length = std::ssize(chunk.sequence->tokens_);
      chunk.sequence->take_pages(length + std::ssize(chunk.tokens));
      parts.push_back({chunk.sequence, chunk.tokens, length, chunk.wanted()});
    }
    if (single_tokens && has_one_rotation(sequences)) {
      shared.loaded.set_rotation(sequences.front()->rotation_);
      decode_one();
    } else {
      finish(forward_each_rotation(parts, cancel), rows);
    }
    shared.loaded.files.require_unchanged();  // or these results are of other weights
    for (const Chunk& chunk : chunks) {
      chunk.sequence->tokens_.insert(chunk.sequence->tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
      chunk.sequence->state_->length = std::ssize(chunk.sequence->tokens_);
      chunk.sequence->computed(std::ssize(chunk.tokens));
    }
  } catch (const CacheFull& full) {
    for (const Chunk& chunk : chunks) {
      if (chunk.sequence == full.sequence()) chunk.sequence->abandon_step();  // the other chunks were not computed
    }
    throw;
  } catch (...) {
    for (const Chunk& chunk : chunks) chunk.sequence->abandon_step();
    throw;
  }
}

// Gives every sequence a slot, with states that have seen its tokens, and pages of its tokens. Lost ones are computed
// again.
void Runner::compute_again(std::span<Sequence* const> sequences, const std::atomic<bool>* cancel) {
  StatePool& states = engine_->state_->cache.states;
  states.begin_step();
  for (Sequence* const sequence : sequences) states.take(sequence->state_);
  const int64_t step = prompt_chunk();
  for (Sequence* const sequence : sequences) {
    const std::span<const int32_t> tokens = sequence->tokens_;
    if (states.has_lost(*sequence->state_, std::ssize(tokens))) sequence->lose_pages();
    if (sequence->computed_ == std::ssize(tokens)) continue;
    sequence->find_pages(tokens);
    while (sequence->computed_ < std::ssize(tokens)) {
      const int64_t first = sequence->computed_, count = std::min(step, std::ssize(tokens) - first);
      const auto part = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
      sequence->take_pages(first + count);
      const Part one{sequence, part, first, 0};
      forward_each_rotation(std::span(&one, 1), cancel);
      sequence->computed(count);
    }
    sequence->state_->length = std::ssize(tokens);
  }
}

bool Runner::encodes_texts() const { return engine_->state_->cache.holds_texts(); }

void Runner::require_unchanged_files() const { engine_->state_->loaded.files.require_unchanged(); }

void Runner::reserve_pages(int64_t tokens, std::span<const Growth> others) const {
  Engine::State& shared = *engine_->state_;
  const std::lock_guard lock(shared.mutex);
  for (size_t group = 0; group < shared.cache.pools.size(); ++group) {
    const PagePool& pool = shared.cache.pools[group];
    const int64_t window = shared.cache.config().groups[group].window;
    const int64_t held = window == 0 ? tokens : std::min(tokens, window + prompt_chunk());
    int64_t needed = (held + PagePool::kTokens - 1) / PagePool::kTokens;
    for (const Growth& other : others) {
      // A window passes pages as it takes new ones.
      const int64_t more = other.sequence->missing_pages(group, other.length);
      needed += window == 0 ? more : std::min<int64_t>(more, 1);
    }
    if (pool.available() < needed)
      throw OutOfMemory(fmt::format("{} tokens need {} pages of the KV cache, and {} of {} are free", tokens, needed,
                                    pool.available(), pool.available() + pool.in_use()));
    try {
      // One by one: a failure leaves memory with the first layers, of one page at most.
      for (int64_t more = 1; more <= needed; ++more) shared.cache.memory().provide(group, pool.in_use() + more);
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error& error) {
      throw OutOfMemory(fmt::format("{} tokens need {} pages of {} tokens in the KV cache, and {} are in use: {}",
                                    tokens, needed, PagePool::kTokens, pool.in_use(), error.what()));
    }
  }
}

void Runner::restore(Sequence& sequence, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(engine_->state_->mutex);
  Sequence* const one = &sequence;
  try {
    compute_again(std::span(&one, 1), cancel);
  } catch (...) {
    sequence.abandon_step();
    throw;
  }
}

void Runner::append(Sequence& sequence, std::span<const int32_t> tokens, int64_t chunk_tokens, Chunk::Rows rows,
                    const std::atomic<bool>* cancel, const std::function<void(std::span<const float>)>& visit) {
  const int64_t before = std::ssize(sequence.tokens_), expected = sequence.expected_;
  check_room(*engine_, before, tokens);
  if (tokens.size() > 1) sequence.expect(std::max(expected, before + std::ssize(tokens)));
  try {
    while (!tokens.empty()) {
      const auto chunk = tokens.first(std::min(tokens.size(), static_cast<size_t>(chunk_tokens)));
      tokens = tokens.subspan(chunk.size());
      const bool silent = rows == Chunk::Rows::kLast && !tokens.empty();
      const Chunk one{&sequence, chunk, silent ? Chunk::Rows::kNone : rows};
      visit(step(std::span(&one, 1), cancel));
    }
  } catch (...) {
    sequence.expect(expected);
    sequence.truncate(before);
    throw;
  }
  sequence.expect(expected);
}

std::span<const float> Runner::host(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel) {
  logits_ = logits;
  if (!logits.defined()) return {};
  const auto count = static_cast<size_t>(rows * engine_->state_->loaded.facts.vocabulary);
  return {static_cast<const float*>(copy_.of(logits.state().storage.get(), count * sizeof(float), cancel)), count};
}

}  // namespace gabbro
