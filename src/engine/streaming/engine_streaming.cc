#include "src/engine/streaming/engine_streaming.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/backend/stream.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"
#include "src/engine/streaming/device_memory.h"
#include "src/engine/streaming/host_blocks.h"
#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/pass_forecast.h"
#include "src/plan/eval.h"

namespace gabbro::streaming {
namespace {

constexpr const char* kFileLink = "file";

// The link that bounds a pass, and its bandwidth.
void set_link(const PassForecast& forecast, const Device& device, ModelFacts& facts) {
  StreamingFacts& s = facts.streaming;
  const double file = forecast.file_bandwidth, bus = forecast.speeds.links.device;
  const double from_file = file > 0 ? static_cast<double>(s.file_bytes_per_pass) / file : 0;
  const double to_device = bus > 0 ? static_cast<double>(s.bytes_per_pass - s.cpu_bytes) / bus : 0;
  const char* const other = device.host_accessible() ? "packing on " : "host memory to ";
  s.link = from_file >= to_device ? kFileLink : other + facts.device_id;
  s.bandwidth = from_file >= to_device ? file : bus;
}

}  // namespace

Error does_not_stream(const ModelFacts& facts) {
  return Error(ErrorCode::kBadInput,
               fmt::format("models of architecture {} are not streamed: --memory needs all of their weights to fit",
                           facts.architecture));
}

std::unique_ptr<WeightStream> plan_stream(const Checkpoint& checkpoint, const ModelNeeds& needs,
                                          const LoadOptions& options, const std::shared_ptr<Device>& device,
                                          ModelFacts& facts) {
  if (options.memory == 0) return nullptr;
  std::vector<PlacedMatrix> matrices = matrices_of(checkpoint, *device);
  if (options.observer != nullptr) {  // it sees the inputs of all tokens at once
    for (PlacedMatrix& m : matrices) m.experts = 0;
  }
  const CacheSize size = {.context = facts.context, .sequences = facts.sequences, .chunk = kStreamedChunk};
  const uint64_t cache = cache_bytes(needs, facts.kv_type, size, *device);
  const FixedMemory fixed = fixed_memory(needs, matrices, *device, cache, facts.context);
  // An integrated GPU, like a CPU, has no memory besides the host's.
  const bool own_memory = !device->host_accessible() && !device->facts().integrated;
  const uint64_t limit = options.memory == kFreeMemory ? free_memory(*device) / 10 * 9 : options.memory;
  if (limit == 0) return nullptr;  // unknown
  const MemoryBudget budget = {.device = limit, .host = own_memory ? options.host_memory : 0};
  const Placement placement = place(std::move(matrices), fixed, budget, device->facts().id);
  facts.streaming.memory = limit;
  facts.streaming.planned_bytes = placement.device_bytes();
  facts.streaming.resident_bytes = placement.resident_bytes;
  if (!placement.streams()) return nullptr;
  facts.streaming.host_bytes = placement.host_bytes;
  facts.streaming.expert_bytes = placement.expert_bytes();
  facts.streaming.bytes_per_pass = placement.bytes_per_pass;
  facts.streaming.file_bytes_per_pass = placement.file_bytes_per_pass;
  WeightStream::Choice choice = placement.choice(default_sizes(*device, largest_layer(placement.matrices)));
  std::shared_ptr<Device> cpu;
  const HostPlan plan =
      measured_host_plan(placement, largest_file(checkpoint), *device, budget.host, options.threads, cpu);
  choice.host = {.device = cpu, .prefixes = {}, .tokens = plan.tokens, .bytes = plan.cpu_bytes};
  for (const HostLayer& layer : plan.layers) choice.host.prefixes.push_back(fmt::format("blk.{}.", layer.number));
  std::ranges::sort(choice.host.prefixes);
  facts.streaming.cpu_layers = std::ssize(plan.layers);
  facts.streaming.cpu_tokens = plan.tokens;
  facts.streaming.cpu_bytes = plan.moved_bytes;
  facts.streaming.cpu_seconds = plan.cpu_seconds;
  const PassForecast forecast = forecast_pass(placement, plan, largest_file(checkpoint), device, cpu, options.threads,
                                              head_bytes(placement, needs));
  facts.streaming.seconds_per_pass = forecast.seconds;
  set_link(forecast, *device, facts);
  return std::make_unique<WeightStream>(device, std::move(choice));
}

void start_stream(WeightStream& stream, ModelFacts& facts) {
  stream.start();
  const StreamFacts started = stream.facts();
  if (!started.note.empty()) facts.warnings.push_back(started.note);
  if (facts.streaming.link == kFileLink) facts.streaming.link += " (" + started.reader + ")";
}

}  // namespace gabbro::streaming

namespace gabbro {
namespace {

Tensor computed(Tensor x, const std::atomic<bool>* cancel) {
  eval(std::span(&x, 1), cancel);
  return x;
}

// Waiting for experts ends with `cancel`, as long as this is there.
class CancelExperts {
 public:
  CancelExperts(streaming::WeightStream& stream, const std::atomic<bool>* cancel) : stream_(stream) {
    stream_.set_cancel(cancel);
  }
  ~CancelExperts() { stream_.set_cancel(nullptr); }
  CancelExperts(const CancelExperts&) = delete;
  CancelExperts& operator=(const CancelExperts&) = delete;

 private:
  streaming::WeightStream& stream_;
};

}  // namespace

// A pool keeps memory of activations by size; a prompt's is large, and of as many sizes as prompts have lengths.
void Engine::State::trim_for(std::span<const llm::Step> parts) {
  constexpr int64_t kFew = 64;
  int64_t tokens = 0;
  for (const llm::Step& part : parts) tokens += part.ids.shape()[0];
  const int64_t before = std::exchange(pass_tokens, tokens);
  if (tokens != before && std::max(tokens, before) > kFew && !device->host_accessible())
    device->trim(abi::MemoryKind::kDevice);
}

Tensor Engine::State::run_pass(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) {
  const auto start = std::chrono::steady_clock::now();
  trim_for(parts);
  const uint64_t experts_before = stream->facts().experts.bytes;
  const CancelExperts canceled(*stream, cancel);
  const uint64_t moved = stream->begin_pass(pass_tokens);
  std::vector<Tensor> x;  // [T, C] of each part
  for (const llm::Step& part : parts) x.push_back(computed(model->embed(part), cancel));
  for (int64_t i = 0; i < model->shape().layers; ++i) {
    stream->acquire(i, cancel);
    for (size_t p = 0; p < parts.size(); ++p) x[p] = computed(model->layer(i, x[p], parts[p], *cache), cancel);
    stream->release(i);
  }
  std::erase_if(x, [](const Tensor& rows) { return rows.shape()[0] == 0; });
  Tensor logits;
  if (!x.empty()) logits = computed(model->head(x.size() == 1 ? x.front() : concat(x, 0)), cancel);
  device->state().compute_stream(*device).synchronize();  // a pass is not over when it is enqueued
  ++streaming_work.passes;
  const streaming::StreamFacts now = stream->facts();
  streaming_work.bytes += moved + now.experts.bytes - experts_before;
  streaming_work.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return logits;
}

}  // namespace gabbro
