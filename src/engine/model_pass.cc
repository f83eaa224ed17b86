#include "src/engine/model_pass.h"

#include "src/base/error.h"
#include "src/engine/decode_plans.h"
#include "src/engine/model_needs.h"
#include "src/engine/model_placement.h"
#include "src/engine/resident_pass.h"
#include "src/engine/traced_pass.h"
#include "src/models/weights/input_squares.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

void evaluate_plain(std::span<const Tensor> wanted, const std::atomic<bool>* cancel) { eval(wanted, cancel); }

// Evaluates what the observer has gathered, too; null: there is none.
Evaluate evaluate_for(const std::shared_ptr<llm::InputSquares>& observer) {
  if (observer == nullptr) return evaluate_plain;
  return [observer](std::span<const Tensor> wanted, const std::atomic<bool>* cancel) {
    std::vector<Tensor> all = observer->pending();
    all.insert(all.end(), wanted.begin(), wanted.end());
    try {
      eval(all, cancel);
    } catch (...) {
      observer->drop();
      throw;
    }
    observer->accumulate();
  };
}

}  // namespace

std::vector<Tensor> ModelPass::decode(DecodeStep& step, DecodeResult /*result*/, const std::atomic<bool>* cancel) {
  const llm::Step inputs = step.inputs();
  return {run(std::span(&inputs, 1), cancel)};
}

std::span<const int32_t> ModelPass::found(DecodeStep& step, int turn, const std::atomic<bool>* cancel) {
  return step.found(turn, cancel);
}

void ModelPass::wait_all(DecodeStep& step, const std::atomic<bool>* cancel) { step.wait_all(cancel); }

std::unique_ptr<ModelPass> make_pass(const LoadedModel& loaded, const EngineCache& cache, DecodePlans& plans) {
  const Evaluate evaluate = evaluate_for(loaded.observer);
  const bool decodes = loaded.observer == nullptr;  // rows of padding are not observed
  return loaded.placement->make_pass(
      {.loaded = loaded, .cache = cache, .plans = plans, .evaluate = evaluate, .decodes = decodes});
}

std::unique_ptr<ModelPass> make_text_pass(const LoadedModel& loaded, const EngineCache& cache) {
  constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max() / 2;
  return std::make_unique<ForwardPass>(loaded, cache, evaluate_plain, kAnyLength);
}

ForwardPass::ForwardPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, int64_t prompt_chunk)
    : ModelPass(prompt_chunk), loaded_(loaded), cache_(cache), evaluate_(std::move(evaluate)) {}

Tensor ForwardPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) {
  Tensor logits = loaded_.model->forward(parts.front(), cache_.memory());
  if (logits.defined()) evaluate_(std::span(&logits, 1), cancel);
  return logits;
}

std::unique_ptr<ModelPass> ForwardPass::traced(const LayerTrace& trace) const {
  return std::make_unique<TracedPass>(loaded_, cache_, evaluate_, trace);
}

ResidentPass::ResidentPass(const LoadedModel& loaded, const EngineCache& cache, DecodePlans& plans, Evaluate evaluate,
                           bool decodes)
    : ForwardPass(loaded, cache, std::move(evaluate), prefill_chunk(loaded.device->facts())),
      plans_(plans),
      decodes_(decodes) {}

std::vector<Tensor> ResidentPass::decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) {
  return plans_.plan(step, result)(cancel);
}

// A device that works in the host's memory gives the logits to the host without a copy.
bool ResidentPass::chooses_tokens() const { return !loaded_.device->host_accessible(); }

}  // namespace gabbro
