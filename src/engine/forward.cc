// Passes over tokens of several sequences: their inputs, and the rotations of their keys.
#include <algorithm>
#include <limits>
#include <map>

#include "src/engine/engine_state.h"
#include "src/engine/page_tables.h"
#include "src/engine/runner.h"
#include "src/models/llm/text_rotations.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

// The tokens of all parts of a step, on the host.
struct StepLists {
  std::vector<int32_t> ids, positions, sequences, output_rows, slots;
  std::vector<Tensor> tables;  // by group of the cache's layers
  Tensor states;               // slots; undefined where the model has none

  // Tokens [first, first + count) as a part of the step.
  llm::Step upload(Device& device, int64_t first, int64_t count) const {
    const auto ints = [&](const std::vector<int32_t>& values) {
      return device.upload(DType::i32, Shape{count}, values.data() + first);
    };
    std::vector<int32_t> rows;
    for (const int32_t row : output_rows) {
      if (row >= first && row < first + count) rows.push_back(row - static_cast<int32_t>(first));
    }
    // A nested aggregate without its type's name is destroyed twice by GCC 12 where a later upload throws.
    return llm::Step{.ids = ints(ids),
                     .places = TokenPositions{.positions = ints(positions),
                                              .sequence = ints(sequences),
                                              .page_table = tables.empty() ? Tensor() : tables.front(),
                                              .slots = states},
                     .page_tables = tables,
                     .output_rows = device.upload(DType::i32, Shape{std::ssize(rows)}, rows.data())};
  }
};

}  // namespace

bool Runner::rotates_by_length() const { return engine_->state_->loaded.model->rotations() != nullptr; }

int64_t Runner::rotation_with(const Chunk& chunk) const {
  const llm::TextRotations* const rotations = engine_->state_->loaded.model->rotations();
  if (rotations == nullptr) return 0;
  const Sequence& sequence = *chunk.sequence;
  const int64_t length = std::ssize(sequence.tokens_) + std::ssize(chunk.tokens);
  const bool grows = sequence.expected_ < length && chunk.tokens.size() == 1;
  return grows ? rotations->of_growing(length, sequence.rotation_)
               : rotations->of(std::max(length, sequence.expected_));
}

int64_t Runner::rotation_room(const Sequence& sequence) const {
  const llm::TextRotations* const rotations = engine_->state_->loaded.model->rotations();
  return rotations != nullptr ? rotations->room(std::ssize(sequence.tokens_)) : std::numeric_limits<int64_t>::max();
}

int64_t Runner::draft_room(const Sequence& sequence) const {
  return std::min(rotation_room(sequence) - 1, engine_->state_->cache.longest_cut());
}

bool Runner::has_one_rotation(std::span<Sequence* const> sequences) {
  return std::ranges::all_of(sequences, [&](const Sequence* one) { return one->rotation_ == sequences[0]->rotation_; });
}

Tensor Runner::forward_each_rotation(std::span<const Part> parts, const std::atomic<bool>* cancel) {
  const LoadedModel& loaded = engine_->state_->loaded;
  std::map<int64_t, std::vector<size_t>> by_rotation;
  for (size_t i = 0; i < parts.size(); ++i) by_rotation[parts[i].sequence->rotation_].push_back(i);
  if (by_rotation.size() == 1) {
    loaded.set_rotation(by_rotation.begin()->first);
    return forward(parts, cancel);
  }
  std::vector<Tensor> logits;
  std::vector<int32_t> first_row(parts.size());
  int32_t rows = 0;
  for (const auto& [rotation, members] : by_rotation) {
    loaded.set_rotation(rotation);
    std::vector<Part> together;
    for (const size_t i : members) {
      together.push_back(parts[i]);
      first_row[i] = rows;
      rows += static_cast<int32_t>(parts[i].wanted);
    }
    const Tensor some = forward(together, cancel);
    if (some.defined() && some.shape()[0] > 0) logits.push_back(some);
  }
  if (logits.empty()) return {};
  std::vector<int32_t> order;  // the rows in the order of the parts
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t row = 0; row < parts[i].wanted; ++row) order.push_back(first_row[i] + static_cast<int32_t>(row));
  }
  const Tensor rows_in_order = loaded.output_device()->upload(DType::i32, Shape{std::ssize(order)}, order.data());
  const Tensor all = gather(concat(logits, 0), rows_in_order);
  eval(std::span(&all, 1), cancel);
  return all;
}

Tensor Runner::forward(std::span<const Part> parts, const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  shared.plans.queued = {};
  Device& device = *shared.loaded.device;
  StepLists lists;
  std::vector<const Sequence*> rows_of_tables;
  std::vector<llm::SequenceTokens> sequences;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const int64_t first_wanted = std::ssize(part.tokens) - part.wanted;
    for (int64_t t = 0; t < std::ssize(part.tokens); ++t) {
      if (t >= first_wanted) lists.output_rows.push_back(static_cast<int32_t>(lists.ids.size()));
      lists.ids.push_back(part.tokens[static_cast<size_t>(t)]);
      lists.positions.push_back(static_cast<int32_t>(part.position + t));
      lists.sequences.push_back(static_cast<int32_t>(i));
    }
    lists.slots.push_back(part.sequence->state_->slot);
    rows_of_tables.push_back(part.sequence);
    sequences.push_back({.held = part.sequence->tokens().first(static_cast<size_t>(part.position)),
                         .tokens = part.tokens,
                         .text_length = part.sequence->text_length_,
                         .wanted = part.wanted,
                         .slot = part.sequence->state_->slot});
  }
  // Steps of several sequences have many lengths: padded, they share plans.
  constexpr size_t kMultiple = 16;
  while (parts.size() > 1 && lists.ids.size() % kMultiple != 0) {
    lists.ids.push_back(0);
    lists.positions.push_back(0);
    lists.sequences.push_back(kNoSequence);
  }
  lists.tables = upload_tables(device, shared.cache, rows_of_tables, parts.size());
  lists.states = shared.cache.states.upload(device, lists.slots);
  const int64_t all = std::ssize(lists.ids), most = std::min(pass_.part_tokens(), all);
  std::vector<llm::Step> steps;
  for (int64_t first = 0; first < all; first += most) {
    steps.push_back(lists.upload(device, first, std::min(most, all - first)));
    steps.back().sequences = sequences;
    steps.back().cancel = cancel;
  }
  return pass_.run(steps, cancel);
}

}  // namespace gabbro
