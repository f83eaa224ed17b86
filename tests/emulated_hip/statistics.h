// Counts of what the process asked of the runtime, for tests that assert them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace emulated_hip {

struct Statistics {
  struct Copies {
    uint64_t count = 0, bytes = 0, largest = 0;
    uint64_t above_stage = 0;  // larger than 1 MiB
    void add(uint64_t size);
  };
  Copies pageable_to_device, mapped_to_device, pinned_to_device, pageable_to_host, pinned_to_host;
  uint64_t launches = 0, graph_launches = 0, graphs_made = 0, streams_made = 0, most_streams = 0;
  uint64_t ranges = 0, map_calls = 0, most_maps_of_a_range = 0, unmap_calls = 0;
  uint64_t failed_calls = 0;
  std::map<std::string, uint64_t> failures;  // by function

  // One line of JSON. `physical` is the bytes of device memory that were not freed.
  std::string json(uint64_t physical, uint64_t most_physical, std::string_view version) const;
};

}  // namespace emulated_hip
