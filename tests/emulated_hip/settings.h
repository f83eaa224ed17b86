// The variables EMULATED_GPU..., read once. README.md describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/emulated_hip/rules.h"

namespace emulated_hip {

enum class MappedCopy : uint8_t { kCount, kRefuse, kDelay };

struct Settings {
  std::vector<std::string> gpus;  // "gfx1100"; none: no device
  Rules rules;
  std::optional<size_t> memory;     // bytes of each device; absent: the card's
  std::optional<size_t> carve_out;  // bytes that an integrated device says it has
  uint32_t resident = 0;            // blocks of a kernel that run in turns; 0: each runs to its end
  size_t used = 0;                  // bytes that other programs occupy on each device
  uint64_t seed = 1;                // of the order of work
  bool poisons = true;              // fresh memory holds 0xa5
  bool ranges = true;               // virtual memory is supported
  bool peers = true;                // devices reach each other's memory
  MappedCopy mapped_copy = MappedCopy::kCount;
  std::map<std::string, uint64_t> fails;  // "launch" -> N
  std::set<std::string> faults;           // "graph:stale"
  std::string statistics;                 // a file that a line of JSON is appended to at the end
  std::string instructions;               // the folder of the instruction emulator; empty: no machine code is run
  std::string code;                       // a folder of code objects that are run instead of host kernels
  bool logs = false;                      // reports each call that fails

  uint64_t fail(const std::string& what) const;  // N of EMULATED_GPU_FAIL=what:N; 0 without it
  bool has_fault(const std::string& what) const { return faults.count(what) != 0; }

  // Prints one line and ends the process with code 2 if a variable has an invalid value.
  static Settings of_process();
};

}  // namespace emulated_hip
