#include "src/engine/decode_plans.h"

#include "src/engine/largest_ids.h"
#include "src/ops/ops.h"

namespace gabbro {

DecodeStep& DecodePlans::step(int64_t sequences) {
  DecodeStep& step = steps_[sequences];
  if (!step.is_made())
    step.make(loaded_.device, sequences, cache_.pages_per_sequence(), cache_.pools.size(), cache_.states.has_slots());
  return step;
}

Compiled& DecodePlans::logits(DecodeStep& step) const {
  if (step.run) return *step.run;
  return step.run.emplace(
      [this, inputs = step.inputs()] { return std::vector{loaded_.model->forward(inputs, cache_.memory())}; });
}

Compiled& DecodePlans::greedy(DecodeStep& step) const {
  if (step.run_greedy) return *step.run_greedy;
  return step.run_greedy.emplace([this, inputs = step.inputs()] {
    const Tensor logits = loaded_.model->forward(inputs, cache_.memory());
    const Tensor ids = argmax(logits, -1, true);
    return std::vector{logits, finite_ids(logits, ids), ids};
  });
}

Compiled& DecodePlans::sampled(DecodeStep& step, bool has_edits) const {
  std::optional<Compiled>& plan = step.run_sampled[has_edits ? 1 : 0];
  if (plan) return *plan;
  return plan.emplace([this, inputs = step.inputs(), rows = step.row_inputs().inputs(has_edits)] {
    const Tensor logits = loaded_.model->forward(inputs, cache_.memory());
    const Tensor tokens = sample_tokens(logits, rows).tokens;
    return std::vector{logits, tokens, maximum(tokens, scalar(tokens.device(), 0, DType::i32))};
  });
}

void DecodePlans::clear() {
  queued = {};
  steps_.clear();
}

}  // namespace gabbro
