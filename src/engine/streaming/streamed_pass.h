// Passes of models whose weights come and go layer by layer: every layer runs all parts of a step before the next one
// does, so that they share its weights.
#pragma once

#include "src/engine/model_pass.h"

namespace gabbro::streaming {

class StreamedPass final : public ModelPass {
 public:
  // Throws bad_input for a model without stages. `decodes`: as ModelPass::decodes().
  StreamedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, bool decodes);

  int64_t part_tokens() const override { return prompt_chunk(); }
  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  bool decodes() const override { return decodes_; }
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;
  // More rows cost next to nothing where a pass waits for weights.
  DraftDefaults draft_defaults() const override { return {.most = 32, .pass_cost = 30, .lookup = true}; }
  // Begins to read, and adds to facts.streaming.link how files are read.
  void start(ModelFacts& facts) override;
  StreamingWork work() const override;

 private:
  Tensor computed(Tensor x, const std::atomic<bool>* cancel) const;
  void trim_for(std::span<const llm::Step> parts);

  const LoadedModel& loaded_;
  const EngineCache& cache_;
  Evaluate evaluate_;
  bool decodes_;
  int64_t pass_tokens_ = 0;  // of the last pass
  StreamingWork work_;       // without what the stream counts
};

}  // namespace gabbro::streaming
