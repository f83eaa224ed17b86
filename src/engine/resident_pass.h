// Passes of models whose weights stay on the device.
#pragma once

#include "src/engine/model_pass.h"

namespace gabbro {

// One forward pass over the whole step.
class ForwardPass : public ModelPass {
 public:
  ForwardPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, int64_t prompt_chunk);

  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;

 protected:
  const LoadedModel& loaded_;

 private:
  const EngineCache& cache_;
  Evaluate evaluate_;
};

// A ForwardPass with compiled steps of one token.
class ResidentPass final : public ForwardPass {
 public:
  // `decodes`: as ModelPass::decodes().
  ResidentPass(const LoadedModel& loaded, const EngineCache& cache, DecodePlans& plans, Evaluate evaluate,
               bool decodes);

  bool decodes() const override { return decodes_; }
  std::vector<Tensor> decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) override;
  bool chooses_tokens() const override;

 private:
  DecodePlans& plans_;
  bool decodes_;
};

}  // namespace gabbro
