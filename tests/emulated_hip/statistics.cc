#include "tests/emulated_hip/statistics.h"

#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

namespace emulated_hip {
namespace {

constexpr uint64_t kStageBytes = uint64_t{1} << 20;

nlohmann::json json_of(const Statistics::Copies& copies) {
  return {{"count", copies.count},
          {"bytes", copies.bytes},
          {"largest", copies.largest},
          {"above_1_mib", copies.above_stage}};
}

}  // namespace

void Statistics::Copies::add(uint64_t size) {
  ++count;
  bytes += size;
  largest = std::max(largest, size);
  if (size > kStageBytes) ++above_stage;
}

std::string Statistics::json(uint64_t physical, uint64_t most_physical, std::string_view version) const {
  const nlohmann::json all = {
      {"pid", ::getpid()},
      {"version", version},
      {"pageable_to_device", json_of(pageable_to_device)},
      {"mapped_to_device", json_of(mapped_to_device)},
      {"pinned_to_device", json_of(pinned_to_device)},
      {"pageable_to_host", json_of(pageable_to_host)},
      {"pinned_to_host", json_of(pinned_to_host)},
      {"launches", launches},
      {"graph_launches", graph_launches},
      {"graphs_made", graphs_made},
      {"streams_made", streams_made},
      {"most_streams", most_streams},
      {"ranges", ranges},
      {"map_calls", map_calls},
      {"most_maps_of_a_range", most_maps_of_a_range},
      {"unmap_calls", unmap_calls},
      {"physical_bytes_left", physical},
      {"most_physical_bytes", most_physical},
      {"failed_calls", failed_calls},
      {"failures", failures},
  };
  return all.dump();
}

}  // namespace emulated_hip
