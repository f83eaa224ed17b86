#include "src/engine/forecast.h"

#include <algorithm>

#include "src/models/kv_cache.h"
#include "src/ops/kv_type.h"

namespace gabbro {
namespace {

constexpr int64_t kShortestContext = 256;  // tokens; with less there is no conversation

bool fits(const Workload& workload, uint64_t free_memory) { return workload.total_bytes() <= free_memory; }

std::optional<int64_t> longest_context(Workload workload, uint64_t free_memory) {
  const int64_t longest = gabbro::longest_context(workload.context, [&](int64_t context) {
    workload.context = context;
    return fits(workload, free_memory);
  });
  return longest >= kShortestContext ? std::optional(longest) : std::nullopt;
}

// The largest that fits. Not q4_0, which costs accuracy that shows.
std::optional<DType> smaller_cache(Workload workload, uint64_t free_memory) {
  const auto fits_blocks = [](const nn::CacheLayer& layer) { return layer.dimension % kKvBlock == 0; };
  const uint64_t bytes = kv_bytes_per_token(workload.needs, workload.kv_type);
  for (const DType type : {DType::f16, DType::q8_0}) {
    if (is_quantized(type) && !std::ranges::all_of(workload.needs.cache, fits_blocks)) continue;
    workload.kv_type = type;
    if (kv_bytes_per_token(workload.needs, type) < bytes && fits(workload, free_memory)) return type;
  }
  return {};
}

std::optional<std::string> smaller_type(Workload workload, uint64_t free_memory) {
  const uint64_t weight_bytes = workload.needs.weight_bytes;
  const std::span<const FileType> types = file_types();
  for (auto it = types.rbegin(); it != types.rend(); ++it) {
    const FileType& type = *it;
    if (!type.proposed) continue;
    workload.needs = needs_of(workload.plan, type);
    if (workload.needs.weight_bytes < weight_bytes && fits(workload, free_memory)) return std::string(type.name);
  }
  return {};
}

}  // namespace

uint64_t Workload::kv_bytes() const { return gabbro::kv_bytes(needs, kv_type, {.context = context, .chunk = part}); }
uint64_t Workload::scratch_bytes() const { return gabbro::scratch_bytes(needs.shape, context, part); }
uint64_t Workload::total_bytes() const { return needs.weight_bytes + kv_bytes() + scratch_bytes(); }

Remedies remedies(const Workload& workload, uint64_t free_memory) {
  return {.context = longest_context(workload, free_memory),
          .kv_type = smaller_cache(workload, free_memory),
          .type = smaller_type(workload, free_memory)};
}

double tokens_per_second(const Workload& workload, double bandwidth, double share, int64_t tokens_in_cache) {
  const uint64_t kv = kv_bytes_read(workload.needs, workload.kv_type, tokens_in_cache);
  const uint64_t states = 2 * state_bytes(workload.needs);  // read and written
  const uint64_t bytes = workload.needs.bytes_per_token + kv + states;
  return share * bandwidth / static_cast<double>(bytes);
}

}  // namespace gabbro
