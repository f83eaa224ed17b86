// Resources of this process: processor, cores and memory, within affinity and cgroup limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/cgroup_memory.h"

namespace gabbro::cpu {

// Reads the files of /proc and /sys under `root`, so that tests can supply other machines.
class Host {
 public:
  explicit Host(std::string root = {}) : root_(std::move(root)) {}

  std::string processor_name() const;

  // Physical cores among the logical processors `processors`, at most what the cgroup's quota pays for; at least 1.
  int cores(const std::vector<int>& processors) const;

  AvailableMemory memory() const;

 private:
  std::string text(const std::string& path) const;
  std::vector<std::string> cgroup_folders() const;

  std::string root_;
};

// The logical processors that this thread may run on.
std::vector<int> allowed_processors();

}  // namespace gabbro::cpu
