#include "src/engine/streaming/streamed_pass.h"

#include <chrono>
#include <utility>
#include <vector>

#include "src/backend/stream.h"
#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/engine/cache/engine_cache.h"
#include "src/engine/loaded_model.h"
#include "src/engine/streaming/engine_streaming.h"

namespace gabbro::streaming {
namespace {

// Waiting for experts ends with `cancel`, as long as this is there.
class CancelExperts {
 public:
  CancelExperts(WeightStream& stream, const std::atomic<bool>* cancel) : stream_(stream) { stream_.set_cancel(cancel); }
  ~CancelExperts() { stream_.set_cancel(nullptr); }
  CancelExperts(const CancelExperts&) = delete;
  CancelExperts& operator=(const CancelExperts&) = delete;

 private:
  WeightStream& stream_;
};

}  // namespace

StreamedPass::StreamedPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate, bool decodes)
    : ModelPass(kStreamedChunk), loaded_(loaded), cache_(cache), evaluate_(std::move(evaluate)), decodes_(decodes) {
  if (loaded.model->has_stages()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("models of architecture {} are not streamed: --memory needs all of their weights to fit",
                          loaded.facts.architecture));
}

Tensor StreamedPass::computed(Tensor x, const std::atomic<bool>* cancel) const {
  evaluate_(std::span(&x, 1), cancel);
  return x;
}

// A pool keeps memory of activations by size; a prompt's is large, and of as many sizes as prompts have lengths.
void StreamedPass::trim_for(std::span<const llm::Step> parts) {
  constexpr int64_t kFew = 64;
  int64_t tokens = 0;
  for (const llm::Step& part : parts) tokens += part.ids.shape()[0];
  const int64_t before = std::exchange(pass_tokens_, tokens);
  if (tokens != before && std::max(tokens, before) > kFew && !loaded_.device->host_accessible())
    loaded_.device->trim(abi::MemoryKind::kDevice);
}

Tensor StreamedPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) {
  const auto start = std::chrono::steady_clock::now();
  WeightStream& stream = *loaded_.stream;
  const llm::LanguageModel& model = *loaded_.model;
  trim_for(parts);
  const uint64_t experts_before = stream.facts().experts.bytes;
  const CancelExperts canceled(stream, cancel);
  const uint64_t moved = stream.begin_pass(pass_tokens_);
  std::vector<Tensor> x;  // [T, C] of each part
  for (const llm::Step& part : parts) x.push_back(computed(model.embed(part), cancel));
  for (int64_t i = 0; i < model.shape().layers; ++i) {
    stream.acquire(i, cancel);
    for (size_t p = 0; p < parts.size(); ++p) x[p] = computed(model.layer(i, x[p], parts[p], cache_.memory()), cancel);
    stream.release(i);
  }
  std::erase_if(x, [](const Tensor& rows) { return rows.shape()[0] == 0; });
  Tensor logits;
  if (!x.empty()) logits = computed(model.head(x.size() == 1 ? x.front() : concat(x, 0)), cancel);
  // A pass is not over when it is enqueued.
  loaded_.device->state().compute_stream(*loaded_.device).synchronize();
  ++work_.passes;
  work_.bytes += moved + stream.facts().experts.bytes - experts_before;
  work_.seconds += seconds_since(start);
  return logits;
}

std::unique_ptr<ModelPass> StreamedPass::traced(const LayerTrace& /*trace*/) const {
  throw bad_input("a model whose weights are streamed has no outputs of single layers");
}

void StreamedPass::start(ModelFacts& facts) { start_stream(*loaded_.stream, facts); }

StreamingWork StreamedPass::work() const {
  StreamingWork work = work_;
  const StreamFacts facts = loaded_.stream->facts();
  work.waited = facts.waited + facts.experts.waited;
  work.expert_hits = facts.experts.hits;
  work.expert_misses = facts.experts.misses;
  work.experts_early = facts.experts.early;
  work.experts_foreseen = facts.experts.foreseen;
  work.expert_bytes = facts.experts.bytes;
  return work;
}

}  // namespace gabbro::streaming
