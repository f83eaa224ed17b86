// The lattices of grids.h for searching: coordinates of their points, and for each combination of digits the points
// next to it. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gabbro::quant {

// Levels of the digits 0, 1, ...; they are about `slope` · digit + `start`, to round to.
struct LatticeLevels {
  int count;  // 3 or 8
  float level[8];
  float slope, start;
};

class Lattice {
 public:
  // `points` as in grids.h, of `digits` digits of `bits` bits; `neighbors` of each key, a multiple of kLanes.
  Lattice(const uint16_t* points, int count, int digits, int bits, const LatticeLevels& levels, int neighbors);

  const LatticeLevels& levels() const { return levels_; }
  // The levels of a point, one per digit.
  const float* point(int index) const { return &coordinates_[static_cast<size_t>(index * digits_)]; }
  // The nearest points to the digits of a key: Σ digit i · count of levels^i. The first is the nearest.
  const uint16_t* neighbors(int key) const { return &neighbors_[static_cast<size_t>(key * neighbor_count_)]; }
  int neighbor_count() const { return neighbor_count_; }

 private:
  LatticeLevels levels_;
  int digits_, neighbor_count_;
  std::vector<float> coordinates_;
  std::vector<uint16_t> neighbors_;
};

// IQ1_S and IQ1_M share it. The others have one lattice each, in their files.
const Lattice& iq1_lattice();

}  // namespace gabbro::quant
