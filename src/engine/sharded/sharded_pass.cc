#include "src/engine/sharded/sharded_pass.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/engine/cache/engine_cache.h"
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

// The logits [R, V] on rank 0, of the parts [R, V of the rank].
Tensor ShardedPass::gathered(std::vector<Tensor> logits, const std::atomic<bool>* cancel) {
  if (logits.front().shape()[0] == 0) return {};
  std::vector<size_t> slots;
  for (size_t rank = 1; rank < ranks(); ++rank) {
    slots.push_back(back_[rank - 1]->send(std::span(&logits[rank], 1)));
    logits[rank] = back_[rank - 1]->receive(slots.back(), cancel).front();
  }
  const Tensor all = concat(logits, 1);
  evaluate_(std::span(&all, 1), cancel);
  for (size_t rank = 1; rank < ranks(); ++rank) back_[rank - 1]->used(slots[rank - 1]);
  return all;
}

// Called while the ranks work. True: they do not react.
bool ShardedPass::looks_stuck(const std::atomic<bool>* cancel) {
  constexpr std::chrono::milliseconds kReact{500};
  const auto now = std::chrono::steady_clock::now();
  if (cancel != nullptr && *cancel) stops_ = true;
  if (stuck_.empty()) {
    const std::optional<std::string> device = loaded_.sums->watch().stuck();
    if (!device) return false;
    stuck_ = *device;
    stopped_ = now;
    stops_ = true;
    loaded_.sums->give_up();
  }
  return now - stopped_ > kReact;
}

Tensor ShardedPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) try {
  const auto lost = [&] { return DeviceLost(fmt::format("{}: the device does not answer", stuck_)); };
  if (!stuck_.empty()) throw lost();
  RankSums& sums = *loaded_.sums;
  stops_ = false;
  sums.begin(&stops_);
  // Threads that are left alone still have these.
  const auto steps = std::make_shared<const std::vector<llm::Step>>(hand_out(parts.front(), cancel));
  const auto logits = std::make_shared<std::vector<Tensor>>(ranks());
  const auto compute = [this, steps, logits](size_t rank) {
    const ModelRank& one = loaded_.ranks[rank];
    const nn::KvCache& cache = cache_.of_rank(rank);
    const llm::Step& step = (*steps)[rank];
    Tensor x = one.model->embed(step);
    for (int64_t i = 0; i < one.model->shape().layers; ++i) x = one.model->layer(i, x, step, cache);
    if (x.shape()[0] > 0) x = one.model->head(x);
    evaluate_(std::span(&x, 1), &stops_);
    (*logits)[rank] = x;
    loaded_.sums->finish(rank);
  };
  bool all_ended = false;
  try {
    all_ended = threads_.run({.run = compute,
                              .give_up = [sums = loaded_.sums] { sums->give_up(); },
                              .leaves = [this, cancel] { return looks_stuck(cancel); }});
  } catch (const Error&) {
    if (stuck_.empty()) throw;
  }
  if (!all_ended) throw lost();
  for (size_t rank = 1; rank < ranks(); ++rank) out_[rank - 1]->used(slots_[rank - 1]);
  return gathered(*logits, cancel);
} catch (...) {
  if (stuck_.empty()) abandon();  // else the device would be waited for
  throw;
}

void ShardedPass::abandon() {
  for (const auto* const handoffs : {&out_, &back_}) {
    for (const std::unique_ptr<Handoff>& handoff : *handoffs) handoff->abandon();
  }
}

void ShardedPass::start(ModelFacts& facts) {
  if (loaded_.sums->through_host()) {
    facts.device_note += facts.device_note.empty() ? "" : "; ";
    facts.device_note += "sums over the devices go through the host's memory: there are no collectives between them";
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
