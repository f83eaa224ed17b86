// The output of each layer, and of its operations, for finding differences.
#pragma once

#include <string>

#include "src/engine/model_pass.h"
#include "src/engine/runner.h"

namespace gabbro {

// The layers' outputs that are wanted.
struct LayerTrace {
  // visit("embed", [T, C]), visit("layers.0", [T, C]) ... and visit("logits", [T, V]) get the output of each as soon as
  // it is computed, for every chunk of kPrefillChunk tokens again.
  std::function<void(const std::string& block, std::span<const float> values, std::span<const int64_t> shape)> visit;
  // Results inside of layers, which are visited before each layer's: "layers.0.attn_norm" ... {"all"}: all that the
  // model names.
  std::span<const std::string> operations{};
};

// The model in stages; each stage's results are passed on when it is computed, and no op is fused over them.
class TracedPass final : public ModelPass {
 public:
  TracedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, const LayerTrace& trace);

  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;

 private:
  bool is_wanted(std::string_view operation) const;
  Tensor computed(Tensor x, const std::string& block, std::vector<llm::OperationResult>& operations,
                  const std::atomic<bool>* cancel) const;

  const LoadedModel& loaded_;
  const EngineCache& cache_;
  Evaluate evaluate_;
  const LayerTrace& trace_;
};

// A runner whose passes are traced.
class TracedRunner {
 public:
  // Throws bad_input for weights that are streamed.
  TracedRunner(const std::shared_ptr<Engine>& engine, LayerTrace trace);

  // Appends tokens to a sequence. Throws as Runner::append, and bad_input for a model without stages.
  void append(Sequence& sequence, std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr);

 private:
  LayerTrace trace_;
  std::unique_ptr<ModelPass> pass_;
  Runner runner_;
};

}  // namespace gabbro
