#include "gabbro/engine/session.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"

namespace gabbro {
namespace {

constexpr int64_t kPageTokens = nn::KvCacheConfig::kPageTokens;

Tensor upload_ints(Device& device, const Shape& shape, const std::vector<int32_t>& values) {
  return device.upload(DType::i32, shape, values.data());
}

}  // namespace

struct Session::State {
  std::shared_ptr<Engine> engine;
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
  Tensor logits;                      // of the last step
  std::shared_ptr<void> host_logits;  // of that step, where the device's memory is not the host's
  std::vector<float> all_logits;      // of several steps

  Engine::State& shared() const;
  template <class StepFunction>
  void extend(std::span<const int32_t> more, int64_t part_tokens, const StepFunction& step);
  void check_room(std::span<const int32_t> more) const;
  void take_pages(int64_t length);
  void release_pages(int64_t length);
  std::vector<int32_t> page_row() const;
  Tensor step_many(std::span<const int32_t> part, const std::vector<int32_t>& output_rows,
                   const std::atomic<bool>* cancel);
  Tensor step_one(int32_t token, const std::atomic<bool>* cancel);
  std::span<const float> host(const Tensor& result);
};

Session::Session(std::shared_ptr<Engine> engine) : state_(std::make_unique<State>()) {
  state_->engine = std::move(engine);
}

Session::~Session() {
  const std::lock_guard lock(state_->shared().mutex);
  state_->release_pages(0);
}

const Engine& Session::engine() const { return *state_->engine; }

Engine::State& Session::State::shared() const { return *engine->state_; }

std::span<const int32_t> Session::tokens() const { return state_->tokens; }

void Session::State::check_room(std::span<const int32_t> more) const {
  if (more.empty()) throw bad_input("no tokens to append");
  const ModelFacts& facts = shared().facts;
  for (const int32_t token : more) {
    if (token < 0 || token >= facts.vocabulary)
      throw bad_input("token {} is outside the vocabulary of {} tokens", token, facts.vocabulary);
  }
  if (static_cast<int64_t>(tokens.size() + more.size()) > facts.context) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} tokens are more than the context of {} holds", tokens.size() + more.size(), facts.context),
        fmt::format("the model was trained with {}: choose with --ctx", facts.context_trained));
  }
}

void Session::State::take_pages(int64_t length) {
  while (static_cast<int64_t>(pages.size()) * kPageTokens < length) pages.push_back(shared().pages->take());
}

void Session::State::release_pages(int64_t length) {
  while (!pages.empty() && static_cast<int64_t>(pages.size() - 1) * kPageTokens >= length) {
    shared().pages->release(pages.back());
    pages.pop_back();
  }
}

std::vector<int32_t> Session::State::page_row() const {
  std::vector<int32_t> row(static_cast<size_t>(shared().cache->config().pages), 0);
  std::ranges::copy(pages, row.begin());
  return row;
}

std::span<const float> Session::State::host(const Tensor& result) {
  logits = result;
  const auto count = static_cast<size_t>(result.shape().elements());
  if (shared().device->host_accessible()) return {static_cast<const float*>(result.state().storage.get()), count};
  if (host_logits == nullptr) host_logits = shared().device->allocate_host(count * sizeof(float));
  shared().device->copy_to_host(host_logits.get(), result.state().storage.get(), count * sizeof(float));
  return {static_cast<const float*>(host_logits.get()), count};
}

Tensor Session::State::step_many(std::span<const int32_t> part, const std::vector<int32_t>& output_rows,
                                 const std::atomic<bool>* cancel) {
  Engine::State& engine_state = shared();
  Device& device = *engine_state.device;
  const auto count = static_cast<int64_t>(part.size());
  std::vector<int32_t> positions(part.size());
  for (size_t i = 0; i < part.size(); ++i) positions[i] = static_cast<int32_t>(tokens.size() + i);
  const std::vector<int32_t> row = page_row();
  llm::Step step{
      .ids = upload_ints(device, Shape{count}, {part.begin(), part.end()}),
      .places = {.positions = upload_ints(device, Shape{count}, positions),
                 .sequence = upload_ints(device, Shape{count}, std::vector<int32_t>(part.size(), 0)),
                 .page_table = upload_ints(device, Shape{1, static_cast<int64_t>(row.size())}, row)},
      .output_rows = upload_ints(device, Shape{static_cast<int64_t>(output_rows.size())}, output_rows),
  };
  Tensor result = engine_state.model->forward(step, *engine_state.cache);
  eval(std::span(&result, 1), cancel);
  return result;
}

Tensor Session::State::step_one(int32_t token, const std::atomic<bool>* cancel) {
  Engine::State& engine_state = shared();
  DecodeStep& decode = engine_state.decode;
  if (!decode.run) {
    const llm::Step step{.ids = decode.ids,
                         .places = {.positions = decode.positions,
                                    .sequence = upload_ints(*engine_state.device, Shape{1}, {0}),
                                    .page_table = decode.page_table}};
    decode.run.emplace([&] { return std::vector{engine_state.model->forward(step, *engine_state.cache)}; });
  }
  const auto position = static_cast<int32_t>(tokens.size());
  overwrite(decode.ids, &token, sizeof(token));
  overwrite(decode.positions, &position, sizeof(position));
  if (std::vector<int32_t> row = page_row(); row != decode.page_row) {
    overwrite(decode.page_table, row.data(), row.size() * sizeof(int32_t));
    decode.page_row = std::move(row);
  }
  logits = Tensor();  // so that its memory can be written again
  return (*decode.run)(cancel).front();
}

// Appends `more` in chunks of `part` tokens: step(part, is_last) computes one, whose pages are there. Whatever throws,
// the tokens are as before.
template <class StepFunction>
void Session::State::extend(std::span<const int32_t> more, int64_t part_tokens, const StepFunction& step) {
  check_room(more);
  const size_t before = tokens.size();
  try {
    while (!more.empty()) {
      const std::span<const int32_t> part = more.first(std::min(more.size(), static_cast<size_t>(part_tokens)));
      more = more.subspan(part.size());
      take_pages(static_cast<int64_t>(tokens.size() + part.size()));
      step(part, more.empty());
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
  } catch (...) {
    tokens.resize(before);
    release_pages(static_cast<int64_t>(before));
    throw;
  }
}

std::span<const float> Session::append(std::span<const int32_t> more, const std::atomic<bool>* cancel) {
  State& s = *state_;
  const std::lock_guard lock(s.shared().mutex);
  Tensor result;
  s.extend(more, prefill_chunk(s.shared().device->facts(), s.shared().facts.quantization),
           [&](std::span<const int32_t> part, bool is_last) {
             if (part.size() == 1) {
               result = s.step_one(part[0], cancel);
             } else {
               const auto last_row = static_cast<int32_t>(part.size()) - 1;
               result = s.step_many(part, is_last ? std::vector{last_row} : std::vector<int32_t>{}, cancel);
             }
           });
  return s.host(result);
}

std::span<const float> Session::append_all_logits(std::span<const int32_t> more, const std::atomic<bool>* cancel) {
  State& s = *state_;
  const std::lock_guard lock(s.shared().mutex);
  std::vector<float> all;
  s.extend(more, kPrefillChunk, [&](std::span<const int32_t> part, bool) {
    if (all.empty()) all.reserve(more.size() * static_cast<size_t>(s.shared().facts.vocabulary));
    std::vector<int32_t> rows(part.size());
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> values = to_host<float>(s.step_many(part, rows, cancel));
    all.insert(all.end(), values.begin(), values.end());
  });
  s.all_logits = std::move(all);
  return s.all_logits;
}

void Session::truncate(int64_t length) {
  State& s = *state_;
  const std::lock_guard lock(s.shared().mutex);
  if (length < 0 || length > static_cast<int64_t>(s.tokens.size())) {
    throw bad_input("a session of {} tokens cannot be cut to {}", s.tokens.size(), length);
  }
  s.tokens.resize(static_cast<size_t>(length));
  s.release_pages(length);
}

}  // namespace gabbro
