#include "src/engine/streaming/engine_streaming.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/engine/model_needs.h"
#include "src/engine/streaming/device_memory.h"
#include "src/engine/streaming/host_blocks.h"
#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/pass_forecast.h"

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

namespace {

// Weights that come and go are used as the files have them.
void refuse_changed_weights(const Checkpoint& checkpoint, const LoadOptions& options) {
  if (!options.quantize.empty())
    throw Error(ErrorCode::kBadInput, fmt::format("{}: weights that are streamed are not quantized", checkpoint.path()),
                "gabbro convert makes a quantized file, which --memory then streams");
  if (!options.adapters.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: adapters are not applied to weights that are streamed", checkpoint.path()),
                "gabbro convert --lora merges them into a file, which --memory then streams");
}

}  // namespace

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
  refuse_changed_weights(checkpoint, options);
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
