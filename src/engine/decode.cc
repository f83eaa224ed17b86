// Steps of one token for each sequence. A greedy one is queued while the one before it runs, where the caller goes on.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "src/engine/engine_state.h"
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
  return page_tables(rows, positions.size());
}

DecodeStep& Runner::begin_decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  DecodeStep& step =
      engine_->state_->decode_step(std::max(padded_, static_cast<int64_t>(std::bit_ceil(chunks.size()))));
  step.wait_all(cancel);
  const std::span<int32_t> ids = step.next(DecodeStep::kIds);
  std::ranges::fill(ids, 0);
  for (size_t i = 0; i < chunks.size(); ++i) ids[i] = chunks[i].tokens[0];
  return step;
}

Tensor Runner::decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  shared.queued = {};
  DecodeStep& step = begin_decode(chunks, cancel);
  logits_ = Tensor();  // so that its memory can be written again
  const auto compute = [&]() -> std::vector<Tensor> {
    if (shared.stream == nullptr) return (*step.run)(cancel);
    const llm::Step inputs = step.inputs();
    return {shared.run_pass(std::span(&inputs, 1), cancel)};
  };
  return step.enqueue(fill_places(step, chunks, 0), compute);
}

std::span<const int32_t> Runner::decode_greedy(std::span<const Chunk> chunks, bool goes_on,
                                               const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  // A device that works in the host's memory has no use for what follows.
  if (shared.device->host_accessible() || shared.stream != nullptr)
    return largest(decode(chunks, cancel), std::ssize(chunks), cancel);
  logits_ = Tensor();
  std::vector<size_t> rows = rows_in_queued(chunks);
  QueuedStep present = std::exchange(shared.queued, {}), next;
  if (rows.empty()) {
    present = queue_greedy(begin_decode(chunks, cancel), chunks, 0, cancel);
    for (size_t i = 0; i < chunks.size(); ++i) rows.push_back(i);
  } else {
    ++steps_queued_before_;
  }
  // The next step of fewer sequences, or in another order, begins with its own inputs.
  const bool same_rows = rows.size() == present.rows.size() && std::ranges::is_sorted(rows);
  if (goes_on && same_rows && take_pages_after(chunks)) next = queue_greedy(*present.step, chunks, 1, cancel);
  const std::span<const int32_t> all = present.step->found(present.turn, cancel);
  std::vector<int32_t> found;
  for (const size_t row : rows) found.push_back(all[row]);
  if (!take_found(found)) return largest(decode(chunks, cancel), std::ssize(chunks), cancel);
  for (size_t i = 0; i < next.rows.size(); ++i) next.rows[i].token = found[i];
  shared.queued = std::move(next);
  return greedy_;
}

QueuedStep Runner::queue_greedy(DecodeStep& step, std::span<const Chunk> chunks, int64_t after,
                                const std::atomic<bool>* cancel) {
  step.enqueue(fill_places(step, chunks, after), [&] { return engine_->state_->greedy_step(step)(cancel); });
  QueuedStep queued{&step, step.turn(), {}};
  for (const Chunk& chunk : chunks)
    queued.rows.push_back({chunk.sequence->state_, std::ssize(chunk.sequence->tokens_) + after, chunk.tokens[0]});
  return queued;
}

std::vector<size_t> Runner::rows_in_queued(std::span<const Chunk> chunks) const {
  const std::vector<QueuedStep::Row>& rows = engine_->state_->queued.rows;
  std::vector<size_t> places;
  for (const Chunk& chunk : chunks) {
    const auto row = std::ranges::find(rows, chunk.sequence->state_, &QueuedStep::Row::sequence);
    if (row == rows.end() || row->length != std::ssize(chunk.sequence->tokens_) || row->token != chunk.tokens[0])
      return {};
    places.push_back(static_cast<size_t>(row - rows.begin()));
  }
  return places;
}

// Pages for one more token of each sequence after those of the chunks. False if there is no room for them.
bool Runner::take_pages_after(std::span<const Chunk> chunks) {
  if (!has_room_after(chunks)) return false;
  try {
    for (const Chunk& chunk : chunks) chunk.sequence->take_pages(std::ssize(chunk.sequence->tokens_) + 2);
  } catch (const CacheFull&) {
    return false;  // the next step, if it comes, throws it
  }
  return true;
}

// Whether each sequence can take one more token after those of the chunks.
bool Runner::has_room_after(std::span<const Chunk> chunks) const {
  const Engine::State& shared = *engine_->state_;
  if (shared.states) return false;
  std::vector<int64_t> missing(shared.pools.size());
  for (const Chunk& chunk : chunks) {
    const int64_t length = std::ssize(chunk.sequence->tokens_) + 2;
    if (length > shared.facts.context || rotation_room(*chunk.sequence) < 2) return false;
    for (size_t group = 0; group < missing.size(); ++group)
      missing[group] += chunk.sequence->missing_pages(group, length);
  }
  return std::ranges::equal(missing, shared.pools, std::ranges::less_equal(), {}, &PagePool::available);
}

}  // namespace gabbro
