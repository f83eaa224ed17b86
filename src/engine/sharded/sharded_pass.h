// Passes of a model whose tensors are cut for several devices: all of them compute each layer, each with its part, and
// sum their results. Each device has a part of the logits.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/handoff.h"
#include "src/engine/loaded_model.h"
#include "src/engine/model_pass.h"
#include "src/engine/sharded/rank_threads.h"

namespace gabbro::sharded {

class ShardedPass final : public ModelPass {
 public:
  ShardedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate);

  Tensor run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) override;
  bool decodes() const override;
  std::vector<Tensor> decode(DecodeStep& step, DecodeResult result, const std::atomic<bool>* cancel) override;
  bool chooses_tokens() const override;
  std::span<const int32_t> found(DecodeStep& step, int turn, const std::atomic<bool>* cancel) override;
  void wait_all(DecodeStep& step, const std::atomic<bool>* cancel) override;
  std::unique_ptr<ModelPass> traced(const LayerTrace& trace) const override;
  // Tests how the devices reach each other, and notes who does not.
  void start(ModelFacts& facts) override;

 private:
  size_t ranks() const { return loaded_.ranks.size(); }
  size_t place_of_rank(size_t rank) const;
  Tensor forward(size_t rank, const llm::Step& step) const;
  using OfRank = std::function<void(size_t rank)>;
  void on_ranks(const OfRank& compute, const std::atomic<bool>* cancel);
  void enqueue_on_ranks(const OfRank& enqueue, const std::atomic<bool>* cancel);
  void wait_on_ranks(const OfRank& wait, const std::atomic<bool>* cancel);
  void run_threads(const OfRank& work, const std::atomic<bool>* cancel);
  std::vector<llm::Step> hand_out(const llm::Step& step, const std::atomic<bool>* cancel);
  Tensor gathered(std::vector<Tensor> logits, const std::atomic<bool>* cancel);
  std::vector<size_t> gather(std::vector<Tensor>& logits, const std::atomic<bool>* cancel);
  void has_gathered(std::span<const size_t> slots);
  std::vector<Tensor> chosen(DecodeStep& step, DecodeResult result, std::vector<Tensor> logits,
                             const std::atomic<bool>* cancel);
  void fail();
  void abandon();
  bool looks_stuck(const std::atomic<bool>* cancel);

  const LoadedModel& loaded_;
  const EngineCache& cache_;
  Evaluate evaluate_;
  std::vector<std::unique_ptr<Handoff>> out_, back_;  // from and to rank 0, by rank - 1
  std::vector<size_t> slots_;                         // of out_, while a pass runs
  int steps_ahead_ = 0;                               // enqueued by decode(), and not found() yet
  std::atomic<bool> stops_ = false;                   // the work of the ranks
  std::string stuck_;                                 // the device that does not come back; empty: none
  std::chrono::steady_clock::time_point stopped_;
  RankThreads threads_;  // ends first
};

}  // namespace gabbro::sharded
