#include "src/engine/decode_plans.h"

#include "src/engine/largest_ids.h"
#include "src/ops/ops.h"

namespace gabbro {

DecodeStep& DecodePlans::step(int64_t sequences) {
  DecodeStep& step = steps_[sequences];
  if (!step.is_made())
    step.make(loaded_.step_devices(), sequences, cache_.pages_per_sequence(), cache_.pools.size(),
              cache_.states.has_slots());
  return step;
}

std::vector<Tensor> DecodePlans::results(const Tensor& logits, const DecodeStep& step, DecodeResult result) {
  switch (result) {
    case DecodeResult::kLogits:
      break;
    case DecodeResult::kLargest: {
      const Tensor ids = argmax(logits, -1, true);
      return {logits, finite_ids(logits, ids), ids};
    }
    case DecodeResult::kSampled:
    case DecodeResult::kSampledWithEdits: {
      const bool has_edits = result == DecodeResult::kSampledWithEdits;
      const Tensor tokens = sample_tokens(logits, step.row_inputs().inputs(has_edits)).tokens;
      return {logits, tokens, maximum(tokens, scalar(tokens.device(), 0, DType::i32))};
    }
  }
  return {logits};
}

Compiled& DecodePlans::plan(DecodeStep& step, DecodeResult result) const {
  std::optional<Compiled>& plan = step.run[static_cast<size_t>(result)];
  if (plan) return *plan;
  return plan.emplace([&] { return results(loaded_.model->forward(step.inputs(), cache_.memory()), step, result); });
}

void DecodePlans::clear() {
  queued = {};
  steps_.clear();
}

}  // namespace gabbro
