#include "src/engine/runner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/engine/sampling/candidates.h"
#include "src/engine/streaming/engine_streaming.h"
#include "src/models/llm/text_rotations.h"
#include "src/models/weights/input_squares.h"

namespace gabbro {
namespace {

Tensor upload_ints(Device& device, const Shape& shape, const std::vector<int32_t>& values) {
  return device.upload(DType::i32, shape, values.data());
}

int64_t rows_of(Chunk::Rows rows, std::span<const int32_t> tokens) {
  if (rows == Chunk::Rows::kAll) return std::ssize(tokens);
  return rows == Chunk::Rows::kLast ? 1 : 0;
}

}  // namespace

Tensor largest_ids(const Tensor& logits) { return finite_ids(logits, argmax(logits, -1, true)); }

Tensor finite_ids(const Tensor& logits, const Tensor& places) {
  return where(isfinite(take_along_axis(logits, places)), places, scalar(logits.device(), -1, DType::i32));
}

void Runner::check_room(const Engine& engine, int64_t length, std::span<const int32_t> more) {
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

int64_t Runner::prompt_chunk() const {
  // The encoder reads a text as a whole.
  if (engine_->state_->text_to_text) return std::numeric_limits<int64_t>::max() / 2;
  return engine_->state_->prompt_chunk();
}

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
  if (engine_->state_->device->host_accessible()) return false;
  const Tensor found = largest_ids(logits);
  eval(std::span(&found, 1));
  const auto count = static_cast<size_t>(rows);
  const void* const memory = on_host(found.state().storage.get(), count * sizeof(int32_t), cancel);
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
  const auto row = static_cast<size_t>(engine_->state_->facts.vocabulary);
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
  bool single_tokens = shared.observer == nullptr;
  for (const Chunk& chunk : chunks) {
    check_room(*engine_, std::ssize(chunk.sequence->tokens_), chunk.tokens);
    if (chunk.sequence->engine_ != engine_ || !seen.insert(chunk.sequence).second)
      throw bad_input("a step takes each sequence once, and those of its engine alone");
    rows += rows_of(chunk.rows, chunk.tokens);
    single_tokens = single_tokens && chunk.tokens.size() == 1 && chunk.rows != Chunk::Rows::kNone;
  }
  if (chunks.empty()) return;
  shared.files.require_unchanged();
  try {
    std::vector<Sequence*> sequences;
    for (const Chunk& chunk : chunks) {
      chunk.sequence->set_rotation(rotation_with(chunk));
      sequences.push_back(chunk.sequence);
    }
    if (!shared.text_to_text) compute_again(sequences, cancel);
    std::vector<Part> parts;
    for (const Chunk& chunk : chunks) {
      const int64_t length = std::ssize(chunk.sequence->tokens_);
      if (!shared.text_to_text) chunk.sequence->take_pages(length + std::ssize(chunk.tokens));
      parts.push_back({chunk.sequence, chunk.tokens, length, chunk.rows});
    }
    if (shared.text_to_text) {
      finish(answer_texts(chunks, cancel), rows);
    } else if (single_tokens && trace_ == nullptr && has_one_rotation(sequences)) {
      shared.model->set_rotation(sequences.front()->rotation_);
      decode_one();
    } else {
      finish(forward_each_rotation(parts, cancel), rows);
    }
    shared.files.require_unchanged();  // or these results are of other weights
    for (const Chunk& chunk : chunks) {
      chunk.sequence->tokens_.insert(chunk.sequence->tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
      chunk.sequence->state_->length = std::ssize(chunk.sequence->tokens_);
      chunk.sequence->computed(std::ssize(chunk.tokens));
    }
  } catch (const CacheFull& full) {
    for (const Chunk& chunk : chunks) {
      if (chunk.sequence == full.sequence()) chunk.sequence->abandon_step();  // nothing was computed of the others
    }
    throw;
  } catch (...) {
    for (const Chunk& chunk : chunks) chunk.sequence->abandon_step();
    throw;
  }
}

// Every sequence gets a slot, with states that have seen its tokens, and pages of its tokens: computed again where they
// were lost.
void Runner::compute_again(std::span<Sequence* const> sequences, const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  if (shared.states) {
    shared.states->begin_step();
    for (Sequence* const sequence : sequences) shared.states->take(sequence->state_);
  }
  const int64_t step = prompt_chunk();
  for (Sequence* const sequence : sequences) {
    const std::span<const int32_t> tokens = sequence->tokens_;
    if (shared.states && sequence->state_->length != std::ssize(tokens)) sequence->lose_pages();
    if (sequence->computed_ == std::ssize(tokens)) continue;
    sequence->find_pages(tokens);
    while (sequence->computed_ < std::ssize(tokens)) {
      const int64_t first = sequence->computed_, count = std::min(step, std::ssize(tokens) - first);
      const auto part = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
      sequence->take_pages(first + count);
      const Part one{sequence, part, first, Chunk::Rows::kNone};
      forward_each_rotation(std::span(&one, 1), cancel);
      sequence->computed(count);
    }
    sequence->state_->length = std::ssize(tokens);
  }
}

bool Runner::cuts_texts() const { return !engine_->state_->states && !encodes_texts(); }
bool Runner::encodes_texts() const { return engine_->state_->text_to_text.has_value(); }
void Runner::require_unchanged_files() const { engine_->state_->files.require_unchanged(); }
bool Runner::rotates_by_length() const {
  return engine_->state_->model != nullptr && engine_->state_->model->rotations() != nullptr;
}

bool Runner::has_pages(int64_t tokens, int64_t reserve) const {
  const Engine::State& shared = *engine_->state_;
  const std::lock_guard lock(engine_->state_->mutex);
  for (size_t group = 0; group < shared.pools.size(); ++group) {
    const int64_t window = shared.cache->config().groups[group].window;
    const int64_t held = window == 0 ? tokens : std::min(tokens, window + shared.prompt_chunk());
    if (shared.pools[group].available() < held / PagePool::kTokens + 1 + reserve) return false;
  }
  return true;
}

int64_t Runner::rotation_with(const Chunk& chunk) const {
  const Engine::State& shared = *engine_->state_;
  const llm::TextRotations* const rotations = shared.model != nullptr ? shared.model->rotations() : nullptr;
  if (rotations == nullptr) return 0;
  const Sequence& sequence = *chunk.sequence;
  const int64_t length = std::ssize(sequence.tokens_) + std::ssize(chunk.tokens);
  const bool grows = sequence.expected_ < length && chunk.tokens.size() == 1;
  return grows ? rotations->of_growing(length, sequence.rotation_)
               : rotations->of(std::max(length, sequence.expected_));
}

int64_t Runner::rotation_room(const Sequence& sequence) const {
  const Engine::State& shared = *engine_->state_;
  const llm::TextRotations* const rotations = shared.model != nullptr ? shared.model->rotations() : nullptr;
  return rotations != nullptr ? rotations->room(std::ssize(sequence.tokens_)) : std::numeric_limits<int64_t>::max();
}

bool Runner::has_one_rotation(std::span<Sequence* const> sequences) {
  return std::ranges::all_of(sequences, [&](const Sequence* one) { return one->rotation_ == sequences[0]->rotation_; });
}

Tensor Runner::forward_each_rotation(std::span<const Part> parts, const std::atomic<bool>* cancel) {
  llm::LanguageModel& model = *engine_->state_->model;
  std::map<int64_t, std::vector<size_t>> by_rotation;
  for (size_t i = 0; i < parts.size(); ++i) by_rotation[parts[i].sequence->rotation_].push_back(i);
  if (by_rotation.size() == 1) {
    model.set_rotation(by_rotation.begin()->first);
    return forward(parts, cancel);
  }
  std::vector<Tensor> logits;
  std::vector<int32_t> first_row(parts.size());
  int32_t rows = 0;
  for (const auto& [rotation, members] : by_rotation) {
    model.set_rotation(rotation);
    std::vector<Part> together;
    for (const size_t i : members) {
      together.push_back(parts[i]);
      first_row[i] = rows;
      rows += static_cast<int32_t>(rows_of(parts[i].rows, parts[i].tokens));
    }
    const Tensor some = forward(together, cancel);
    if (some.defined() && some.shape()[0] > 0) logits.push_back(some);
  }
  if (logits.empty()) return {};
  std::vector<int32_t> order;  // the rows in the order of the parts
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t row = 0; row < rows_of(parts[i].rows, parts[i].tokens); ++row)
      order.push_back(first_row[i] + static_cast<int32_t>(row));
  }
  const Tensor all = gather(concat(logits, 0), upload_ints(*engine_->state_->device, Shape{std::ssize(order)}, order));
  eval(std::span(&all, 1), cancel);
  return all;
}

void Runner::restore(Sequence& sequence, const std::atomic<bool>* cancel) {
  if (engine_->state_->text_to_text) return;
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

void Runner::append_traced(Sequence& sequence, std::span<const int32_t> tokens, const Trace& trace,
                           const std::atomic<bool>* cancel) {
  if (engine_->state_->text_to_text)
    throw Error(ErrorCode::kBadInput, "an encoder-decoder has no outputs of single layers");
  if (engine_->state_->stream != nullptr || !engine_->state_->model->has_stages())
    throw Error(ErrorCode::kBadInput, "a model whose weights are streamed has no outputs of single layers");
  trace_ = &trace;
  try {
    append(sequence, tokens, kPrefillChunk, Chunk::Rows::kAll, cancel, [](std::span<const float>) {});
  } catch (...) {
    trace_ = nullptr;
    throw;
  }
  trace_ = nullptr;
}

// Rows have the number of pages of the longest sequence, so that short ones share plans.
std::vector<std::vector<int32_t>> Runner::page_tables(std::span<const Sequence* const> sequences, size_t rows) const {
  const Engine::State& shared = *engine_->state_;
  const auto width = static_cast<size_t>(shared.pages_per_sequence());
  std::vector<std::vector<int32_t>> tables(shared.pools.size(), std::vector<int32_t>(rows * width, 0));
  for (size_t group = 0; group < tables.size(); ++group) {
    for (size_t i = 0; i < sequences.size(); ++i)
      std::ranges::copy(sequences[i]->pages_[group].ids,
                        tables[group].begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return tables;
}

std::vector<Tensor> Runner::upload_tables(std::span<const Sequence* const> sequences, size_t rows) const {
  const Engine::State& shared = *engine_->state_;
  const Shape shape{static_cast<int64_t>(rows), shared.pages_per_sequence()};
  std::vector<Tensor> tables;
  for (const std::vector<int32_t>& values : page_tables(sequences, rows))
    tables.push_back(upload_ints(*shared.device, shape, values));
  return tables;
}

Tensor Runner::forward(std::span<const Part> parts, const std::atomic<bool>* cancel) {
  Engine::State& shared = *engine_->state_;
  shared.queued = {};
  Device& device = *shared.device;
  std::vector<int32_t> ids, positions, sequences, output_rows, slots;
  std::vector<const Sequence*> rows_of_tables;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    for (size_t t = 0; t < part.tokens.size(); ++t) {
      const bool wanted =
          part.rows == Chunk::Rows::kAll || (part.rows == Chunk::Rows::kLast && t + 1 == part.tokens.size());
      if (wanted) output_rows.push_back(static_cast<int32_t>(ids.size()));
      ids.push_back(part.tokens[t]);
      positions.push_back(static_cast<int32_t>(part.position) + static_cast<int32_t>(t));
      sequences.push_back(static_cast<int32_t>(i));
    }
    slots.push_back(part.sequence->state_->slot);
    rows_of_tables.push_back(part.sequence);
  }
  // Steps of several sequences have many lengths: padded, they share plans.
  constexpr size_t kMultiple = 16;
  while (parts.size() > 1 && ids.size() % kMultiple != 0) {
    ids.push_back(0);
    positions.push_back(0);
    sequences.push_back(kNoSequence);
  }
  const auto all = static_cast<int64_t>(ids.size());
  const std::vector<Tensor> tables = upload_tables(rows_of_tables, parts.size());
  const Tensor states = shared.states ? upload_ints(device, Shape{std::ssize(parts)}, slots) : Tensor();
  const auto step_of = [&](int64_t first, int64_t count) {
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
                                              .page_table = tables.front(),
                                              .slots = states},
                     .page_tables = tables,
                     .output_rows = upload_ints(device, Shape{std::ssize(rows)}, rows)};
  };
  if (shared.stream != nullptr) {
    std::vector<llm::Step> steps;
    const int64_t most = prompt_chunk();
    for (int64_t first = 0; first < all; first += most) steps.push_back(step_of(first, std::min(most, all - first)));
    return shared.run_pass(steps, cancel);
  }
  return run_model(step_of(0, all), cancel);
}

void Runner::compute(std::span<const Tensor> wanted, const std::atomic<bool>* cancel) {
  llm::InputSquares* const observer = engine_->state_->observer.get();
  if (observer == nullptr) return eval(wanted, cancel);
  std::vector<Tensor> all = observer->pending();
  all.insert(all.end(), wanted.begin(), wanted.end());
  try {
    eval(all, cancel);
  } catch (...) {
    observer->drop();
    throw;
  }
  observer->accumulate();
}

Tensor Runner::run_model(const llm::Step& step, const std::atomic<bool>* cancel) {
  if (trace_ != nullptr) return run_traced(step, cancel);
  const Engine::State& shared = *engine_->state_;
  Tensor logits = shared.model->forward(step, *shared.cache);
  compute(std::span(&logits, 1), cancel);
  return logits;
}

// The model in stages; each stage's results are passed on when it is computed.
Tensor Runner::run_traced(llm::Step step, const std::atomic<bool>* cancel) {
  const Engine::State& shared = *engine_->state_;
  std::vector<llm::OperationResult> operations;
  if (!trace_->operations.empty()) step.operations = &operations;
  const auto is_wanted = [&](std::string_view name) { return std::ranges::count(trace_->operations, name) > 0; };
  const bool all = is_wanted("all");
  const auto visit = [&](const std::string& name, const Tensor& x) {
    trace_->visit(name, to_host<float>(cast(x, DType::f32)), x.shape().lengths());
  };
  const auto computed = [&](Tensor x, const std::string& block) {
    // The others' tensors must not be held: kernels fuse over what nothing else uses.
    std::erase_if(operations,
                  [&](const llm::OperationResult& operation) { return !all && !is_wanted(operation.name); });
    std::vector<Tensor> wanted;
    for (const llm::OperationResult& operation : operations) wanted.push_back(operation.value);
    wanted.push_back(x);
    compute(wanted, cancel);
    for (const llm::OperationResult& operation : operations)
      visit(fmt::format("{}.{}", block, operation.name), operation.value);
    operations.clear();
    visit(block, x);
    return x;
  };
  Tensor x = computed(shared.model->embed(step), "embed");
  for (int64_t i = 0; i < shared.model->shape().layers; ++i)
    x = computed(shared.model->layer(i, x, step, *shared.cache), fmt::format("layers.{}", i));
  return computed(shared.model->head(x), "logits");
}

std::span<const float> Runner::host(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel) {
  Device& device = *engine_->state_->device;
  logits_ = logits;
  if (!logits.defined()) return {};
  const auto count = static_cast<size_t>(rows * engine_->state_->facts.vocabulary);
  const void* const memory = logits.state().storage.get();
  if (device.host_accessible()) return {static_cast<const float*>(memory), count};
  return {static_cast<const float*>(on_host(memory, count * sizeof(float), cancel)), count};
}

// Memory that a copy may still be written to is not freed before.
Runner::~Runner() {
  if (!host_is_late_) return;
  try {
    engine_->state_->device->synchronize();
  } catch (const Error&) {
    // The device failed: it writes nothing more.
  }
}

const void* Runner::on_host(const void* memory, size_t bytes, const std::atomic<bool>* cancel) {
  Device& device = *engine_->state_->device;
  if (host_bytes_ < bytes) {
    if (host_is_late_) device.synchronize();
    host_memory_ = device.allocate_host(bytes);
    host_bytes_ = bytes;
  }
  host_is_late_ = true;
  device.copy_to_host(host_memory_.get(), memory, bytes, cancel);
  host_is_late_ = false;
  return host_memory_.get();
}

}  // namespace gabbro
