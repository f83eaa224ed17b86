#include "src/engine/staged/staged_pass.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/engine/cache/engine_cache.h"
#include "src/engine/decode_plans.h"
#include "src/engine/model_needs.h"
#include "src/engine/step_tensors.h"
#include "src/ops/ops.h"

namespace gabbro::staged {
namespace {

int64_t chunk_of(const LoadedModel& loaded) {
  int64_t chunk = prefill_chunk(loaded.device->facts());
  for (const ModelStage& stage : loaded.stages) chunk = std::min(chunk, prefill_chunk(stage.device->facts()));
  return chunk;
}

}  // namespace

StagedPass::StagedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate)
    : ModelPass(chunk_of(loaded) * std::ssize(loaded.stages)),  // a part for each stage
      loaded_(loaded),
      cache_(cache),
      evaluate_(std::move(evaluate)),
      part_tokens_(chunk_of(loaded)) {
  for (size_t i = 0; i + 1 < loaded.stages.size(); ++i)
    handoffs_.push_back(std::make_unique<Handoff>(loaded.stages[i].device, loaded.stages[i + 1].device));
}

Tensor StagedPass::forward(size_t number, const Tensor& before, const llm::Step& step) const {
  const ModelStage& stage = loaded_.stages[number];
  Tensor x = number == 0 ? stage.model->embed(step) : before;
  for (int64_t i = stage.layers.first; i < stage.layers.end; ++i) x = stage.model->layer(i, x, step, cache_.memory());
  return stage.layers.has_last && x.shape()[0] > 0 ? stage.model->head(x) : x;
}

void StagedPass::compute(size_t number, Part& part, const std::atomic<bool>* cancel) {
  const size_t received = part.slot;
  if (number > 0) {
    std::vector<Tensor> tensors = handoffs_[number - 1]->receive(received, cancel);
    part.x = std::move(tensors.back());
    const std::vector<Tensor*> targets = tensors_of(part.step);
    for (size_t i = 0; i < targets.size(); ++i) *targets[i] = std::move(tensors[i]);
  }
  part.x = forward(number, part.x, part.step);
  evaluate_(std::span(&part.x, 1), cancel);
  if (!loaded_.stages[number].layers.has_last) {
    std::vector<Tensor> tensors;
    for (const Tensor* const tensor : tensors_of(part.step)) tensors.push_back(*tensor);
    tensors.push_back(std::exchange(part.x, Tensor()));
    part.slot = handoffs_[number]->send(tensors);
  }
  if (number > 0) handoffs_[number - 1]->used(received);
}

std::vector<Tensor> StagedPass::run_decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) {
  const size_t last = loaded_.stages.size() - 1;
  std::vector<Tensor> results;
  size_t slot = 0;
  for (size_t number = 0; number <= last; ++number) {
    std::vector<Tensor> before;  // the hidden states of the stage before
    if (number > 0) before = handoffs_[number - 1]->receive(slot, cancel);
    const auto compute = [&] { return forward(number, number > 0 ? before.front() : Tensor(), step.inputs(number)); };
    if (number == last) {
      std::optional<Compiled>& plan = step.run[static_cast<size_t>(result)];
      if (!plan) plan.emplace([&] { return DecodePlans::results(compute(), step, result); }, before).forget_inputs();
      results = (*plan)(before, cancel);
    } else {
      std::vector<Compiled>& plans = step.run_stages;
      if (plans.size() == number) plans.emplace_back([&] { return std::vector{compute()}; }, before).forget_inputs();
      const size_t next = handoffs_[number]->send(plans[number](before, cancel));
      if (number > 0) handoffs_[number - 1]->used(slot);
      slot = next;
    }
  }
  handoffs_.back()->used(slot);
  return results;
}

// In each turn every stage computes the part that the stage before it computed in the turn before.
Tensor StagedPass::run_parts(std::span<const llm::Step> steps, const std::atomic<bool>* cancel) {
  std::vector<Part> parts;
  for (const llm::Step& step : steps) parts.push_back({.step = step, .x = {}});
  for (size_t turn = 0; turn < parts.size() + loaded_.stages.size() - 1; ++turn) {
    for (size_t stage = 0; stage < loaded_.stages.size() && stage <= turn; ++stage) {
      if (turn - stage < parts.size()) compute(stage, parts[turn - stage], cancel);
    }
  }
  std::vector<Tensor> logits;
  for (Part& part : parts) {
    if (part.x.shape()[0] > 0) logits.push_back(std::move(part.x));
  }
  if (logits.empty()) return {};
  if (logits.size() == 1) return logits.front();
  const Tensor all = concat(logits, 0);
  evaluate_(std::span(&all, 1), cancel);
  return all;
}

void StagedPass::abandon() {
  for (const std::unique_ptr<Handoff>& handoff : handoffs_) handoff->abandon();
}

Tensor StagedPass::run(std::span<const llm::Step> steps, const std::atomic<bool>* cancel) try {
  return run_parts(steps, cancel);
} catch (...) {
  abandon();
  throw;
}

std::vector<Tensor> StagedPass::decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) try {
  return run_decode(step, result, cancel);
} catch (...) {
  abandon();
  throw;
}

// The ids of a step come to the first device by memory that all devices of a backend copy in the order of their
// streams.
bool StagedPass::chooses_tokens() const {
  const auto has_own_memory = [&](const ModelStage& stage) {
    return !stage.device->host_accessible() && stage.device->state().backend == loaded_.device->state().backend;
  };
  return std::ranges::all_of(loaded_.stages, has_own_memory);
}

void StagedPass::start(ModelFacts& facts) {
  for (const std::unique_ptr<Handoff>& handoff : handoffs_) {
    const std::string detour = handoff->detour();
    if (!detour.empty()) facts.device_note += (facts.device_note.empty() ? "" : "; ") + detour;
  }
}

std::unique_ptr<ModelPass> StagedPass::traced(const LayerTrace& /*trace*/) const {
  throw bad_input("a model that is split over devices has no outputs of single layers");
}

}  // namespace gabbro::staged
