// Passes of a model that several processes hold, by layers or by tensors. All of them get the logits.
#pragma once

#include "src/engine/model_pass.h"
#include "src/engine/processes/process_part.h"

namespace gabbro::processes {

class ProcessPass final : public ModelPass {
 public:
  ProcessPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate);

  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;
  void start(ModelFacts& facts) override;

 private:
  Tensor run_layers(const llm::Step& step, const std::atomic<bool>* cancel);
  Tensor run_shard(const llm::Step& step, const std::atomic<bool>* cancel);

  const LoadedModel& loaded_;
  const EngineCache& cache_;
  Evaluate evaluate_;
};

}  // namespace gabbro::processes
