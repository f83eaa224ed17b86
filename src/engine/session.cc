#include "gabbro/engine/session.h"

#include <algorithm>

#include "src/engine/model_needs.h"
#include "src/engine/runner.h"
#include "src/engine/session_state.h"

namespace gabbro {

Session::Session(std::shared_ptr<Engine> engine) : state_(std::make_unique<State>(engine)) {}
Session::~Session() = default;

const Engine& Session::engine() const { return *state_->runner.engine(); }

std::span<const int32_t> Session::tokens() const { return state_->sequence.tokens(); }

std::span<const float> Session::append(std::span<const int32_t> more, const std::atomic<bool>* cancel) {
  std::span<const float> logits;
  state_->runner.append(state_->sequence, more, state_->runner.prompt_chunk(), Chunk::Rows::kLast, cancel,
                        [&](std::span<const float> rows) { logits = rows; });
  return logits;
}

std::span<const float> Session::append_all_logits(std::span<const int32_t> more, const std::atomic<bool>* cancel) {
  std::vector<float> all;
  all.reserve(more.size() * static_cast<size_t>(engine().facts().vocabulary));
  state_->runner.append(state_->sequence, more, kPrefillChunk, Chunk::Rows::kAll, cancel,
                        [&](std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); });
  state_->all_logits = std::move(all);
  return state_->all_logits;
}

void Session::expect(int64_t length) { state_->sequence.expect(length); }

int64_t Session::rotation_room() const { return state_->runner.rotation_room(state_->sequence); }

void Session::truncate(int64_t length) { state_->sequence.truncate(length); }

}  // namespace gabbro
