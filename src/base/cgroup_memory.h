// The memory of a machine that a process may take, within its control groups of version 1 or 2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gabbro {

struct AvailableMemory {
  uint64_t total = 0;  // bytes
  uint64_t free = 0;
};

// `machine` within the limits of this process's control group and those above it. Pages of files that a group has in
// memory count as free: the system drops them first. `read` gives the text of a file below / , empty where there is
// none.
AvailableMemory within_control_groups(AvailableMemory machine,
                                      const std::function<std::string(const std::string& path)>& read);

}  // namespace gabbro
