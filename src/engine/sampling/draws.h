// Random numbers of one sampler. Their sequence is fixed by the C++ standard, unlike that of its distributions.
#pragma once

#include <cstdint>
#include <deque>
#include <random>

namespace gabbro::sampling {

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  uint64_t next() {
    const uint64_t draw = peek(0);
    ahead_.pop_front();
    return draw;
  }
  // The draw that next() returns after `ahead` others.
  uint64_t peek(size_t ahead) {
    while (ahead_.size() <= ahead) ahead_.push_back(random_());
    return ahead_[ahead];
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::mt19937_64 random_;
  std::deque<uint64_t> ahead_;  // made, and not used yet
};

}  // namespace gabbro::sampling
