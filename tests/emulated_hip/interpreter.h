// The Python interpreter in which the instruction emulator runs, opened when the first code object is loaded. Its
// functions are in instructions/device.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emulated_hip {

struct MachineLaunch {
  long module;
  std::string kernel;
  uint32_t grid[3];
  uint32_t block_threads;
  uint32_t block_memory;
  std::string_view args;
  const std::vector<uint64_t>& ranges;  // sorted pairs [begin, end) that the kernel may touch
};

// All throw std::runtime_error with Python's message. None needs the runtime's lock.
std::string load_code(std::string_view code, const std::string& target);
std::string launch_code(const MachineLaunch& launch);
void unload_code(long module);

}  // namespace emulated_hip
