// Steps of one token per sequence. A greedy step is queued while the step before it runs, if the caller goes on.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "src/engine/engine_state.h"
#include "src/engine/page_tables.h"
#include "src/engine/runner.h"

namespace gabbro {
std::vector<std::vector<int32_t>> Runner::fill_places(DecodeStep& step, std::span<const Chunk> chunks, int64_t after) {
  using enum DecodeStep::Input;
  const std::span<int32_t> positions = step.next(kPositions), sequences = step.next(kSequences),
                           slots = step.next(kSlots);
  std::ranges::fill(positions, 0);
  std::ranges::fill(sequences, kNoSequence);
  std::ranges::fill(slots, -1);
  std::vector<const Sequence*> rows;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Sequence& sequence = *chunks[i].sequence;
    positions[i] = static_cast<int32_t>(std::ssize(sequence.tokens_) + after);
    sequences[i] = static_cast<int32_t>(i);
    slots[i] = sequence.state_->slot;
    rows.push_back(&sequence);
  }
  return page_tables(engine_->state_->cache, rows, positions.size());
}

DecodeStep& Runner::begin_decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  DecodeStep& step = engine_->state_->plans.step(std::max(padded_, static_cast<int64_t>(std::bit_ceil(chunks.size()))));
  pass_.wait_all(step, cancel);
  const std::span<int32_t> ids = step.next(DecodeStep::kIds);
  std::ranges::fill(ids, 0);
  for (size_t i = 0; i < chunks.size(); ++i) ids[i] = chunks[i].tokens[0];
  return step;
}

Tensor Runner::decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  engine_->state_->plans.queued = {};
  DecodeStep& step = begin_decode(chunks, cancel);
  logits_ = Tensor();  // so that its memory can be written again
  return step.enqueue(fill_places(step, chunks, 0), [&] { return pass_.decode(step, DecodeResult::kLogits, cancel); });
}

bool Runner::chooses_on_device(std::span<const sampling::Row> rows) const {
  const auto is_whole = [](const sampling::Row& row) { return row.on_device && row.allowed == nullptr; };
  return pass_.chooses_tokens() && std::ranges::all_of(rows, is_whole);
}

std::span<const int32_t> Runner::decode_greedy(std::span<const Chunk> chunks, bool goes_on,
                                               const std::atomic<bool>* cancel) {
  const std::vector<sampling::Row> rows(chunks.size());
  const std::span<const sampling::Row> next_rows(rows.data(), goes_on ? rows.size() : 0);
  if (!chooses_on_device(rows) || !take_found(decode_ids(chunks, rows, next_rows, cancel)))
    return largest(decode(chunks, cancel), std::ssize(chunks), cancel);
  return greedy_;
}

std::vector<int32_t> Runner::decode_ids(std::span<const Chunk> chunks, std::span<const sampling::Row> rows,
                                        std::span<const sampling::Row> next_rows, const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  logits_ = Tensor();
  std::vector<size_t> places = rows_in_queued(chunks, rows);
  QueuedStep present = std::exchange(shared.plans.queued, {}), next;
  if (places.empty()) {
    present = queue(begin_decode(chunks, cancel), chunks, rows, 0, cancel);
    for (size_t i = 0; i < chunks.size(); ++i) places.push_back(i);
  } else {
    ++steps_queued_before_;
  }
  // If the next step has fewer sequences or another order, it begins with its own inputs.
  const bool same_rows = places.size() == present.rows.size() && std::ranges::is_sorted(places);
  if (!next_rows.empty() && same_rows && take_pages_after(chunks))
    next = queue(*present.step, chunks, next_rows, 1, cancel);
  const std::span<const int32_t> all = pass_.found(*present.step, present.turn, cancel);
  std::vector<int32_t> found;
  for (const size_t place : places) found.push_back(all[place]);
  for (size_t i = 0; i < next.rows.size(); ++i) next.rows[i].token = found[i];
  // A row without a number queues no usable step: a greedy row is computed again on the host.
  if (std::ranges::none_of(found, [](int32_t id) { return id < 0; })) shared.plans.queued = std::move(next);
  return found;
}

QueuedStep Runner::queue(DecodeStep& step, std::span<const Chunk> chunks, std::span<const sampling::Row> rows,
                         int64_t after, const std::atomic<bool>* cancel) {
  if (std::ranges::all_of(rows, [](const sampling::Row& row) { return row == sampling::Row{}; })) {
    step.enqueue(fill_places(step, chunks, after), [&] { return pass_.decode(step, DecodeResult::kLargest, cancel); });
  } else {
    const bool has_edits = step.next_rows(rows);
    step.enqueue(fill_places(step, chunks, after), [&] {
      step.upload_rows();
      return pass_.decode(step, has_edits ? DecodeResult::kSampledWithEdits : DecodeResult::kSampled, cancel);
    });
  }
  QueuedStep queued{&step, step.turn(), {}};
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Sequence& sequence = *chunks[i].sequence;
    queued.rows.push_back({sequence.state_, std::ssize(sequence.tokens_) + after, chunks[i].tokens[0], rows[i]});
  }
  return queued;
}

std::vector<size_t> Runner::rows_in_queued(std::span<const Chunk> chunks, std::span<const sampling::Row> rows) const {
  const std::vector<QueuedStep::Row>& queued = engine_->state_->plans.queued.rows;
  std::vector<size_t> places;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    const auto row = std::ranges::find(queued, chunk.sequence->state_, &QueuedStep::Row::sequence);
    if (row == queued.end() || row->length != std::ssize(chunk.sequence->tokens_) || row->token != chunk.tokens[0] ||
        row->choice != rows[i])
      return {};
    places.push_back(static_cast<size_t>(row - queued.begin()));
  }
  return places;
}

// Takes pages for one more token of each sequence after its chunk. Returns false if the cache has no room for them.
bool Runner::take_pages_after(std::span<const Chunk> chunks) {
  if (!has_room_after(chunks)) return false;
  try {
    for (const Chunk& chunk : chunks) chunk.sequence->take_pages(std::ssize(chunk.sequence->tokens_) + 2);
  } catch (const CacheFull&) {
    return false;  // the next step, if it comes, throws it
  }
  return true;
}

// Returns whether each sequence can take one more token after its chunk.
bool Runner::has_room_after(std::span<const Chunk> chunks) const {
  const Engine::State& shared = *engine_->state_;
  std::vector<int64_t> missing(shared.cache.pools.size());
  for (const Chunk& chunk : chunks) {
    const int64_t length = std::ssize(chunk.sequence->tokens_) + 2;
    if (length > shared.loaded.facts.context || draft_room(*chunk.sequence) < 1) return false;
    for (size_t group = 0; group < missing.size(); ++group)
      missing[group] += chunk.sequence->missing_pages(group, length);
  }
  return std::ranges::equal(missing, shared.cache.pools, std::ranges::less_equal(), {}, &PagePool::available);
}

}  // namespace gabbro
