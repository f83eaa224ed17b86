#include "src/engine/sharded/sharded_pass.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/engine/cache/engine_cache.h"
#include "src/engine/decode_plans.h"
#include "src/engine/decode_step.h"
#include "src/engine/model_needs.h"
#include "src/engine/sharded/rank_sums.h"
#include "src/engine/step_tensors.h"
#include "src/ops/ops.h"

namespace gabbro::sharded {
namespace {

int64_t smallest_chunk(const LoadedModel& loaded) {
  int64_t chunk = prefill_chunk(loaded.device->facts());
  for (const ModelRank& rank : loaded.ranks) chunk = std::min(chunk, prefill_chunk(rank.device->facts()));
  return chunk;
}

}  // namespace

ShardedPass::ShardedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate)
    : ModelPass(smallest_chunk(loaded)),
      loaded_(loaded),
      cache_(cache),
      evaluate_(std::move(evaluate)),
      threads_(loaded.ranks.size()) {
  for (size_t rank = 1; rank < ranks(); ++rank) {
    out_.push_back(std::make_unique<Handoff>(loaded.device, loaded.ranks[rank].device));
    back_.push_back(std::make_unique<Handoff>(loaded.ranks[rank].device, loaded.device));
  }
}

// The step on each device.
std::vector<llm::Step> ShardedPass::hand_out(const llm::Step& step, const std::atomic<bool>* cancel) {
  std::vector<llm::Step> steps(ranks(), step);
  std::vector<Tensor> tensors;
  for (const Tensor* const tensor : tensors_of(steps.front())) tensors.push_back(*tensor);
  slots_.clear();
  for (size_t rank = 1; rank < ranks(); ++rank) {
    slots_.push_back(out_[rank - 1]->send(tensors));
    std::vector<Tensor> copies = out_[rank - 1]->receive(slots_.back(), cancel);
    const std::vector<Tensor*> targets = tensors_of(steps[rank]);
    for (size_t i = 0; i < targets.size(); ++i) *targets[i] = std::move(copies[i]);
  }
  return steps;
}

// The parts [R, V of the rank] of the logits come to rank 0. Returns what has_gathered() takes, once they were read.
std::vector<size_t> ShardedPass::gather(std::vector<Tensor>& logits, const std::atomic<bool>* cancel) {
  std::vector<size_t> slots;
  for (size_t rank = 1; rank < ranks(); ++rank) {
    slots.push_back(back_[rank - 1]->send(std::span(&logits[rank], 1)));
    logits[rank] = back_[rank - 1]->receive(slots.back(), cancel).front();
  }
  return slots;
}

void ShardedPass::has_gathered(std::span<const size_t> slots) {
  for (size_t rank = 1; rank < ranks(); ++rank) back_[rank - 1]->used(slots[rank - 1]);
}

// The logits [R, V] on rank 0, of the parts [R, V of the rank].
Tensor ShardedPass::gathered(std::vector<Tensor> logits, const std::atomic<bool>* cancel) {
  if (logits.front().shape()[0] == 0) return {};
  const std::vector<size_t> slots = gather(logits, cancel);
  const Tensor all = concat(logits, 1);
  evaluate_(std::span(&all, 1), cancel);
  has_gathered(slots);
  return all;
}

// The results of a step on rank 0, of its parts [S, V of the rank], without a wait.
std::vector<Tensor> ShardedPass::chosen(DecodeStep& step, DecodeResult result, std::vector<Tensor> logits,
                                        const std::atomic<bool>* cancel) {
  const std::vector<size_t> slots = gather(logits, cancel);
  std::optional<Compiled>& plan = step.run[static_cast<size_t>(result)];
  if (!plan)
    plan.emplace([&] { return DecodePlans::results(concat(logits, 1), step, result); }, logits).forget_inputs();
  const std::vector<Tensor> results = (*plan)(logits, cancel);
  has_gathered(slots);
  return results;
}

// Called while the ranks work. True: they do not react.
bool ShardedPass::looks_stuck(const std::atomic<bool>* cancel) {
  constexpr std::chrono::milliseconds kReact{500};
  const auto now = std::chrono::steady_clock::now();
  if (cancel != nullptr && *cancel) stops_ = true;
  if (stuck_.empty()) {
    const std::string late = loaded_.sums->late_device();
    const std::optional<std::string> device = late.empty() ? loaded_.sums->watch().stuck() : late;
    if (!device) return false;
    stuck_ = *device;
    stopped_ = now;
    stops_ = true;
    loaded_.sums->give_up();
  }
  return now - stopped_ > kReact;
}

// Each rank's thread does compute(rank), and then waits for its device.
void ShardedPass::on_ranks(const OfRank& compute, const std::atomic<bool>* cancel) {
  loaded_.sums->begin(&stops_);
  run_threads(
      [compute, sums = loaded_.sums](size_t rank) {
        compute(rank);
        sums->finish(rank);
      },
      cancel);
  steps_ahead_ = 0;
}

// Sums of a step that still runs may have failed: no begin() takes that back.
void ShardedPass::enqueue_on_ranks(const OfRank& enqueue, const std::atomic<bool>* cancel) {
  if (steps_ahead_ == 0) loaded_.sums->begin(&stops_);
  loaded_.sums->begin_wait();
  run_threads(enqueue, cancel);
}

void ShardedPass::wait_on_ranks(const OfRank& wait, const std::atomic<bool>* cancel) {
  loaded_.sums->begin_wait();
  run_threads(
      [wait, sums = loaded_.sums](size_t rank) {
        wait(rank);
        sums->has_waited(rank);
      },
      cancel);
}

void ShardedPass::run_threads(const OfRank& work, const std::atomic<bool>* cancel) {
  const auto lost = [&] { return DeviceLost(fmt::format("{}: the device does not answer", stuck_)); };
  if (!stuck_.empty()) throw lost();
  stops_ = false;
  bool all_ended = false;
  try {
    // Threads that are left alone still have the work and the sums.
    all_ended = threads_.run({.run = work,
                              .give_up = [sums = loaded_.sums] { sums->give_up(); },
                              .leaves = [this, cancel] { return looks_stuck(cancel); }});
  } catch (const Error&) {
    if (stuck_.empty()) throw;
  }
  if (all_ended && stuck_.empty()) stuck_ = loaded_.sums->late_device();
  if (!all_ended || !stuck_.empty()) throw lost();
}

Tensor ShardedPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) try {
  const auto steps = std::make_shared<const std::vector<llm::Step>>(hand_out(parts.front(), cancel));
  const auto logits = std::make_shared<std::vector<Tensor>>(ranks());
  on_ranks(
      [this, steps, logits](size_t rank) {
        Tensor x = forward(rank, (*steps)[rank]);
        evaluate_(std::span(&x, 1), &stops_);
        (*logits)[rank] = x;
      },
      cancel);
  for (size_t rank = 1; rank < ranks(); ++rank) out_[rank - 1]->used(slots_[rank - 1]);
  return gathered(*logits, cancel);
} catch (...) {
  fail();
  throw;
}

// The hidden states of a rank, or its part of the logits where some are wanted.
Tensor ShardedPass::forward(size_t rank, const llm::Step& step) const {
  const llm::LanguageModel& model = *loaded_.ranks[rank].model;
  Tensor x = model.embed(step);
  for (int64_t i = 0; i < model.shape().layers; ++i) x = model.layer(i, x, step, cache_.of_rank(rank));
  return x.shape()[0] > 0 ? model.head(x) : x;
}

bool ShardedPass::decodes() const { return loaded_.sums->are_in_plans(); }

// A plan for each rank, and none that waits for the host.
std::vector<Tensor> ShardedPass::decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) try {
  step.run_ranks.resize(ranks());
  const auto logits = std::make_shared<std::vector<Tensor>>(ranks());
  const OfRank compute = [this, logits, &step](size_t rank) {
    std::optional<Compiled>& plan = step.run_ranks[rank];
    if (!plan) plan.emplace([&] { return std::vector{forward(rank, step.inputs(place_of_rank(rank)))}; });
    (*logits)[rank] = (*plan)(&stops_).front();
  };
  // The next run writes the parts again, once they are free.
  const auto parts = [&] { return std::exchange(*logits, {}); };
  if (result == DecodeResult::kLogits) {
    on_ranks(compute, cancel);
    return {gathered(parts(), cancel)};
  }
  enqueue_on_ranks(compute, cancel);
  ++steps_ahead_;
  return chosen(step, result, parts(), cancel);
} catch (...) {
  fail();
  throw;
}

// The ids of a step come to the other devices by memory that all devices of a backend copy in the order of their
// streams.
bool ShardedPass::chooses_tokens() const {
  const auto has_own_memory = [](const ModelRank& rank) { return !rank.device->host_accessible(); };
  return decodes() && std::ranges::all_of(loaded_.ranks, has_own_memory);
}

std::span<const int32_t> ShardedPass::found(DecodeStep& step, int turn, const std::atomic<bool>* cancel) try {
  wait_on_ranks([this, &step, turn](size_t rank) { step.wait(turn, place_of_rank(rank), &stops_); }, cancel);
  --steps_ahead_;
  return step.found(turn, cancel);
} catch (...) {
  fail();
  throw;
}

void ShardedPass::wait_all(DecodeStep& step, const std::atomic<bool>* cancel) try {
  if (steps_ahead_ == 0) return step.wait_all(cancel);
  wait_on_ranks(
      [this, &step](size_t rank) {
        for (int turn = 0; turn < DecodeStep::kTurns; ++turn) step.wait(turn, place_of_rank(rank), &stops_);
      },
      cancel);
  steps_ahead_ = 0;  // what is queued is dropped
} catch (...) {
  fail();
  throw;
}

// The place of its inputs in a DecodeStep, whose last device is rank 0's: LoadedModel::step_devices().
size_t ShardedPass::place_of_rank(size_t rank) const { return (rank + ranks() - 1) % ranks(); }

void ShardedPass::fail() {
  steps_ahead_ = 0;
  if (stuck_.empty()) abandon();  // else the device would be waited for
}

void ShardedPass::abandon() {
  for (const auto* const handoffs : {&out_, &back_}) {
    for (const std::unique_ptr<Handoff>& handoff : *handoffs) handoff->abandon();
  }
}

void ShardedPass::start(ModelFacts& facts) {
  if (const std::string& reason = loaded_.sums->through_host(); !reason.empty()) {
    facts.device_note += facts.device_note.empty() ? "" : "; ";
    facts.device_note += "sums over the devices go through the host's memory: " + reason;
  }
  for (const auto* const handoffs : {&out_, &back_}) {
    for (const std::unique_ptr<Handoff>& handoff : *handoffs) {
      const std::string detour = handoff->detour();
      if (!detour.empty()) facts.device_note += (facts.device_note.empty() ? "" : "; ") + detour;
    }
  }
}

std::unique_ptr<ModelPass> ShardedPass::traced(const LayerTrace& /*trace*/) const {
  throw bad_input("a model that is split over devices has no outputs of single layers");
}

}  // namespace gabbro::sharded
