#include "backends/cpu/host.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

namespace gabbro::cpu {
namespace {

std::string trimmed(std::string text) {
  const auto blank = [](unsigned char c) { return c <= ' '; };
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  text.erase(std::find_if_not(text.rbegin(), text.rend(), blank).base(), text.end());
  return text;
}

// The text after "key   :" in a file of such lines; empty when there is none.
std::string field(const std::string& file, const std::string& key) {
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) return trimmed(line.substr(colon + 1));
  }
  return {};
}

// The number that `text` begins with; none for "max" and the like.
std::optional<uint64_t> number(const std::string& text) {
  std::istringstream in(text);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

}  // namespace

std::string Host::text(const std::string& path) const {
  std::ifstream in(root_ + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Host::processor_name() const {
  const std::string info = text("/proc/cpuinfo");
  for (const char* key : {"model name", "Model", "cpu model"}) {
    if (std::string name = field(info, key); !name.empty()) return name;
  }
  return "CPU";
}

// The folders of this process's cgroup and its ancestors, for the unified hierarchy and for the controllers of
// version 1.
std::vector<std::string> Host::cgroup_folders() const {
  std::vector<std::string> folders;
  std::istringstream lines(text("/proc/self/cgroup"));  // hierarchy:controllers:path
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string mount = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      folders.push_back(mount + (path == "/" ? "" : path));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return folders;
}

int Host::cores(const std::vector<int>& processors) const {
  std::set<std::string> siblings;
  for (const int processor : processors) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/";
    const std::string list = trimmed(text(topology + "thread_siblings_list"));
    siblings.insert(list.empty() ? std::to_string(processor) : list);
  }
  double cores = static_cast<double>(siblings.size());
  for (const std::string& folder : cgroup_folders()) {
    std::istringstream unified(text(folder + "/cpu.max"));  // "200000 100000" or "max 100000"
    double quota = 0;
    double period = 0;
    if (!(unified >> quota >> period)) {
      quota = period = 0;
      std::istringstream(text(folder + "/cpu.cfs_quota_us")) >> quota;  // -1: none
      std::istringstream(text(folder + "/cpu.cfs_period_us")) >> period;
    }
    if (quota > 0 && period > 0) cores = std::min(cores, std::ceil(quota / period));
  }
  return std::max(1, static_cast<int>(cores));
}

AvailableMemory Host::memory() const {
  const std::string info = text("/proc/meminfo");  // in kB
  return within_control_groups({.total = number(field(info, "MemTotal")).value_or(0) * 1024,
                                .free = number(field(info, "MemAvailable")).value_or(0) * 1024},
                               [this](const std::string& path) { return text(path); });
}

std::vector<int> allowed_processors() {
  std::vector<int> processors;
  for (int size = 1024; size <= 65536; size *= 4) {  // the kernel's own mask may be larger than cpu_set_t
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(size);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    for (int i = 0; read && i < size; ++i) {
      if (CPU_ISSET_S(i, bytes, set)) processors.push_back(i);
    }
    CPU_FREE(set);
    if (read) return processors;
  }
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    processors.push_back(static_cast<int>(i));
  return processors;
}

}  // namespace gabbro::cpu
