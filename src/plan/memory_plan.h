// Lays out buffers with known lifetimes in one arena.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gabbro {

// In use from step `first` to step `last`, both included.
struct Lifetime {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // by buffer; multiples of 64
  size_t bytes = 0;             // of the whole arena
};

// Buffers whose lifetimes overlap never share memory. Largest first, each at the lowest offset that fits.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace gabbro
