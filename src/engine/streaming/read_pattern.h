// How a pass over streamed weights reads its files. A disk that others use, too, gives fewer bytes per second to small
// reads and to short queues, so the link is measured with the reads that a placement needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gabbro::streaming {

struct Placement;
struct StreamSizes;

struct ReadPattern {
  size_t bytes = size_t{4} << 20;  // of one read
  int in_flight = 8;               // reads under way at a time
  int burst = 0;                   // reads after which all are awaited; 0: the queue never drains
};

// Reads of the matrices that are streamed from files, with their mean size. Nothing if there are none.
std::optional<ReadPattern> stream_reads(const Placement& placement, const StreamSizes& sizes);
// Reads of the experts that a layer probably misses, which are awaited before the layer goes on.
std::optional<ReadPattern> expert_reads(const Placement& placement, const StreamSizes& sizes);

// The share of a layer's experts that have no slot, if all are used equally often.
double missing_share(const Placement& placement, int64_t layer);

}  // namespace gabbro::streaming
