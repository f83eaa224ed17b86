#include "src/engine/traced_pass.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/model_needs.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {

TracedPass::TracedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, const LayerTrace& trace)
    : ModelPass(kPrefillChunk), loaded_(loaded), cache_(cache), evaluate_(std::move(evaluate)), trace_(trace) {}

std::unique_ptr<ModelPass> TracedPass::traced(const LayerTrace& trace) const {
  return std::make_unique<TracedPass>(loaded_, cache_, evaluate_, trace);
}

bool TracedPass::is_wanted(std::string_view operation) const {
  const auto has = [&](std::string_view name) { return std::ranges::count(trace_.operations, name) > 0; };
  return has("all") || has(operation);
}

Tensor TracedPass::computed(Tensor x, const std::string& block, std::vector<llm::OperationResult>& operations,
                            const std::atomic<bool>* cancel) const {
  const auto visit = [&](const std::string& name, const Tensor& value) {
    trace_.visit(name, to_host<float>(cast(value, DType::f32)), value.shape().lengths());
  };
  // The others' tensors must not be held: kernels fuse over what nothing else uses.
  std::erase_if(operations, [&](const llm::OperationResult& operation) { return !is_wanted(operation.name); });
  std::vector<Tensor> wanted;
  for (const llm::OperationResult& operation : operations) wanted.push_back(operation.value);
  wanted.push_back(x);
  evaluate_(wanted, cancel);
  for (const llm::OperationResult& operation : operations)
    visit(fmt::format("{}.{}", block, operation.name), operation.value);
  operations.clear();
  visit(block, x);
  return x;
}

Tensor TracedPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) {
  llm::Step step = parts.front();
  std::vector<llm::OperationResult> operations;
  if (!trace_.operations.empty()) step.operations = &operations;
  Tensor x = computed(loaded_.model->embed(step), "embed", operations, cancel);
  for (int64_t i = 0; i < loaded_.model->shape().layers; ++i) {
    const Tensor next = loaded_.model->layer(i, x, step, cache_.memory());
    x = computed(next, fmt::format("layers.{}", i), operations, cancel);
  }
  return computed(loaded_.model->head(x), "logits", operations, cancel);
}

TracedRunner::TracedRunner(const std::shared_ptr<Engine>& engine, LayerTrace trace)
    : trace_(std::move(trace)), pass_(engine->state_->pass->traced(trace_)), runner_(engine, *pass_) {}

void TracedRunner::append(Sequence& sequence, std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  runner_.append(sequence, tokens, pass_->prompt_chunk(), Chunk::Rows::kAll, cancel, [](std::span<const float>) {});
}

}  // namespace gabbro
