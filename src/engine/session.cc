#include "gabbro/engine/session.h"

#include <algorithm>

#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/engine/runner.h"

namespace gabbro {

struct Session::State {
  explicit State(const std::shared_ptr<Engine>& engine) : runner(engine), sequence(engine) {}

  Runner runner;
  Sequence sequence;
  std::vector<float> all_logits;     // of several steps
  std::vector<int32_t> before_tree;  // the tokens of append_tree()
};

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

void Session::append_traced(std::span<const int32_t> more, const BlockVisitor& visit, const std::atomic<bool>* cancel,
                            std::span<const std::string> operations) {
  state_->runner.append_traced(state_->sequence, more, {.visit = visit, .operations = operations}, cancel);
}

std::span<const float> Session::append_tree(std::span<const int32_t> more, const TokenTree& tree,
                                            const std::atomic<bool>* cancel) {
  state_->before_tree.assign(more.begin(), more.end());
  return state_->runner.step_tree(state_->sequence, more, tree, cancel);
}

void Session::keep_branch(int32_t node) { state_->runner.keep_branch(state_->sequence, state_->before_tree, node); }

int64_t Session::branch_room() const { return state_->runner.branch_room(); }

void Session::expect(int64_t length) { state_->sequence.expect(length); }

int64_t Session::rotation_room() const { return state_->runner.rotation_room(state_->sequence); }

void Session::truncate(int64_t length) { state_->sequence.truncate(length); }

}  // namespace gabbro
