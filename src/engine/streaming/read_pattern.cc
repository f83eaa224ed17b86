#include "src/engine/streaming/read_pattern.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/round_up.h"
#include "src/engine/streaming/placement.h"

namespace gabbro::streaming {
namespace {

using Home = PlacedMatrix::Home;

constexpr size_t kStep = size_t{64} << 10;  // of sizes, so that similar models share a measurement

struct Reads {
  uint64_t bytes = 0, count = 0;

  void add(uint64_t more, uint64_t piece_bytes) {
    bytes += more;
    count += (more + piece_bytes - 1) / piece_bytes;
  }
  size_t mean_bytes() const { return round_up(static_cast<size_t>(bytes / count), kStep); }
};

int in_flight(const StreamSizes& sizes) { return std::max(1, std::min(sizes.reads, sizes.buffers)); }

}  // namespace

std::optional<ReadPattern> stream_reads(const Placement& placement, const StreamSizes& sizes) {
  Reads reads;
  for (const PlacedMatrix& m : placement.matrices) {
    if (m.home == Home::kFile && m.layer >= 0) reads.add(m.file_bytes, sizes.piece_bytes);
  }
  if (reads.count == 0) return std::nullopt;
  return ReadPattern{.bytes = reads.mean_bytes(), .in_flight = in_flight(sizes)};
}

std::optional<ReadPattern> expert_reads(const Placement& placement, const StreamSizes& sizes) {
  Reads reads;
  std::set<int64_t> layers;
  double missed = 0;  // reads of one pass
  for (const PlacedMatrix& m : placement.matrices) {
    if (m.home != Home::kByNeed) continue;
    Reads expert;
    expert.add(m.file_bytes / static_cast<uint64_t>(m.experts), sizes.piece_bytes);
    reads.bytes += expert.bytes;
    reads.count += expert.count;
    missed += missing_share(placement, m.layer) * static_cast<double>(m.used) * static_cast<double>(expert.count);
    layers.insert(m.layer);
  }
  if (reads.count == 0) return std::nullopt;
  const double burst = std::round(missed / static_cast<double>(layers.size()));
  return ReadPattern{
      .bytes = reads.mean_bytes(), .in_flight = in_flight(sizes), .burst = std::max(1, static_cast<int>(burst))};
}

double missing_share(const Placement& placement, int64_t layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  for (const ExpertPool& pool : placement.pools) {
    if (std::ranges::find(pool.prefixes, prefix) == pool.prefixes.end()) continue;
    const double all = static_cast<double>(std::ssize(pool.prefixes) * pool.experts);
    return std::max(0.0, 1 - static_cast<double>(pool.slots) / all);
  }
  return 1;
}

}  // namespace gabbro::streaming
