// Passes of a model whose layers are on several devices: each device is a stage of a pipeline, and hands the hidden
// states of its last layer to the next one. While a stage computes a part of a step, the one before it computes the
// next part.
#pragma once

#include <memory>
#include <vector>

#include "src/backend/handoff.h"
#include "src/engine/loaded_model.h"
#include "src/engine/model_pass.h"

namespace gabbro::staged {

class StagedPass final : public ModelPass {
 public:
  StagedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate);

  int64_t part_tokens() const override { return part_tokens_; }
  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  bool decodes() const override { return true; }
  std::vector<Tensor> decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) override;
  bool chooses_tokens() const override;
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;
  // Tests how the devices reach each other, and notes who does not.
  void start(ModelFacts& facts) override;

 private:
  // A part of a step on its way through the stages.
  struct Part {
    llm::Step step;
    Tensor x;         // [T, C], after the last stage logits [R, V]
    size_t slot = 0;  // of the handoff to the next stage
  };

  void compute(size_t stage, Part& part, const std::atomic<bool>* cancel);
  Tensor run_parts(std::span<const llm::Step> steps, const std::atomic<bool>* cancel);
  std::vector<Tensor> run_decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel);
  // After an error: what the stages were given may still read what was handed over.
  void abandon();
  // The layers of a stage, from the ids of a step or from the hidden states x of the stage before, and what follows.
  Tensor forward(size_t stage, const Tensor& x, const llm::Step& step) const;

  const LoadedModel& loaded_;
  const EngineCache& cache_;
  Evaluate evaluate_;
  int64_t part_tokens_;
  std::vector<std::unique_ptr<Handoff>> handoffs_;  // by the stage that gives
};

}  // namespace gabbro::staged
