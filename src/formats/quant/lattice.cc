#include "src/formats/quant/lattice.h"

#include <algorithm>
#include <cmath>

#include "src/formats/quant/grids.h"

namespace gabbro::quant {

Lattice::Lattice(const uint16_t* points, int count, int digits, int bits, const LatticeLevels& levels, int neighbors)
    : levels_(levels), digits_(digits), neighbor_count_(neighbors) {
  std::vector<float> columns(static_cast<size_t>(digits * count));  // [digits, count]
  for (int p = 0; p < count; ++p) {
    for (int i = 0; i < digits; ++i) {
      const float level = levels.level[points[p] >> (bits * i) & ((1 << bits) - 1)];
      coordinates_.push_back(level);
      columns[static_cast<size_t>(i * count + p)] = level;
    }
  }
  int keys = 1;
  for (int i = 0; i < digits; ++i) keys *= levels.count;
  neighbors_.reserve(static_cast<size_t>(keys * neighbors));
  std::vector<float> distances(static_cast<size_t>(count));
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (int key = 0; key < keys; ++key) {
    std::fill(distances.begin(), distances.end(), 0.0f);
    for (int i = 0, rest = key; i < digits; ++i, rest /= levels.count) {
      const float level = levels.level[rest % levels.count];
      const float* column = &columns[static_cast<size_t>(i * count)];
      for (int p = 0; p < count; ++p) distances[static_cast<size_t>(p)] += (column[p] - level) * (column[p] - level);
    }
    // Levels are integers, so the distances are too; equal ones are in the order of the points.
    for (int p = 0; p < count; ++p) {
      order[static_cast<size_t>(p)] = static_cast<int64_t>(distances[static_cast<size_t>(p)]) << 16 | p;
    }
    std::partial_sort(order.begin(), order.begin() + neighbors, order.end());
    for (int i = 0; i < neighbors; ++i) neighbors_.push_back(static_cast<uint16_t>(order[static_cast<size_t>(i)]));
  }
}

const Lattice& iq1_lattice() {
  static const Lattice lattice(kIq1SGrid, 2048, 8, 2, {3, {-1, 0, 1}, 1, -1}, 8);
  return lattice;
}

}  // namespace gabbro::quant
