// A pass of the model over the tokens of a step. One kind of pass is chosen when a model is loaded: by the place of its
// weights, and by who observes them.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/engine/model_facts.h"
#include "src/models/llm/step.h"

namespace gabbro {

class DecodePlans;  // decode_plans.h
class DecodeStep;   // decode_step.h
enum class DecodeResult;
class EngineCache;   // cache/engine_cache.h
struct LoadedModel;  // loaded_model.h
struct LayerTrace;   // traced_pass.h

// Evaluates tensors, as eval() does.
using Evaluate = std::function<void(std::span<const Tensor> wanted, const std::atomic<bool>* cancel)>;

// Drafts that suit a model.
struct DraftDefaults {
  int most = 8;          // tokens in a pass, at most: more rows cost time where the weights are at hand
  double pass_cost = 4;  // of a pass that was not measured yet, in tokens
  bool lookup = false;   // drafts from the text itself, unasked
};

class ModelPass {
 public:
  explicit ModelPass(int64_t prompt_chunk) : prompt_chunk_(prompt_chunk) {}
  virtual ~ModelPass() = default;
  ModelPass(const ModelPass&) = delete;
  ModelPass& operator=(const ModelPass&) = delete;

  // Tokens of prompts that the device computes well in one step.
  int64_t prompt_chunk() const { return prompt_chunk_; }
  // Tokens of a part, at most.
  virtual int64_t part_tokens() const { return std::numeric_limits<int64_t>::max(); }
  // Logits [R, V] of the wanted rows of all parts of a step, in their order; undefined where none are wanted. When
  // `cancel` becomes true: kInterrupted.
  virtual Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) = 0;

  // Whether steps of one token for each sequence go to decode(), with padding that belongs to no sequence.
  virtual bool decodes() const { return false; }
  // The results of the step; only passes that choose tokens have others than kLogits.
  virtual std::vector<Tensor> decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel);
  // Whether the device chooses the tokens of such steps, so that the next one can be queued before they are known.
  virtual bool chooses_tokens() const { return false; }
  // Wait for such steps, as the functions of DecodeStep.
  virtual std::span<const int32_t> found(DecodeStep& step, int turn, const std::atomic<bool>* cancel);
  virtual void wait_all(DecodeStep& step, const std::atomic<bool>* cancel);

  // A pass whose results are passed on layer by layer. Throws bad_input where weights come and go; a model
  // without stages throws it when the pass runs.
  virtual std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const = 0;

  virtual DraftDefaults draft_defaults() const { return {}; }
  // Called once, when all is loaded. Adds to the facts.
  virtual void start(ModelFacts& /*facts*/) {}
  virtual StreamingWork work() const { return {}; }  // so far

 private:
  int64_t prompt_chunk_;
};

// For an encoder-decoder, which reads a text as a whole.
std::unique_ptr<ModelPass> make_text_pass(const LoadedModel& loaded, const EngineCache& cache);
// For other models. Throws bad_input for streamed weights of a model without stages.
std::unique_ptr<ModelPass> make_pass(const LoadedModel& loaded, const EngineCache& cache, DecodePlans& plans);

}  // namespace gabbro
