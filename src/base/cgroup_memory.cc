#include "src/base/cgroup_memory.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

namespace gabbro {
namespace {

using ReadText = std::function<std::string(const std::string& path)>;

// The number that `text` begins with; none for "max" and the like.
std::optional<uint64_t> first_number(const std::string& text) {
  std::istringstream in(text);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// The folders of this process's groups that may limit memory, and of those above them. A container's /sys/fs/cgroup
// may hold its own group alone: then the folders that /proc names are missing, and the topmost one is its own.
std::vector<std::string> group_folders(const ReadText& read) {
  std::vector<std::string> found;
  std::istringstream lines(read("/proc/self/cgroup"));  // hierarchy:controllers:path
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      found.push_back("/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers) + (path == "/" ? "" : path));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return found;
}

// Bytes of pages of files, which memory.stat has as "inactive_file 4096", and for a group of version 1 with those below
// it as "total_inactive_file 4096".
uint64_t file_pages(const std::string& stat) {
  uint64_t own = 0, whole = 0, value = 0;
  std::istringstream in(stat);
  for (std::string name; in >> name >> value;) {
    if (name == "inactive_file" || name == "active_file") own += value;
    if (name == "total_inactive_file" || name == "total_active_file") whole += value;
  }
  return std::max(own, whole);
}

}  // namespace

AvailableMemory within_control_groups(AvailableMemory machine, const ReadText& read) {
  AvailableMemory memory = machine;
  for (const std::string& folder : group_folders(read)) {
    std::optional<uint64_t> limit = first_number(read(folder + "/memory.max"));
    if (const auto high = first_number(read(folder + "/memory.high"))) limit = std::min(limit.value_or(*high), *high);
    std::optional<uint64_t> used = first_number(read(folder + "/memory.current"));
    if (!limit) {
      limit = first_number(read(folder + "/memory.limit_in_bytes"));  // without a limit: nearly 2⁶³
      used = first_number(read(folder + "/memory.usage_in_bytes"));
    }
    if (!limit || *limit >= machine.total) continue;
    const uint64_t all = used.value_or(0), files = std::min(all, file_pages(read(folder + "/memory.stat")));
    memory.total = std::min(memory.total, *limit);
    memory.free = std::min(memory.free, *limit - std::min(*limit, all - files));
  }
  return memory;
}

}  // namespace gabbro
