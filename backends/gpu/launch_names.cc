#include "backends/gpu/launch_names.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>

namespace gabbro::gpu {
namespace {

constexpr uint32_t kKept = 16;  // a power of two, so that the count may overflow

std::array<std::atomic<const char*>, kKept> g_names{};
std::atomic<uint32_t> g_count{0};

}  // namespace

const char* keep_name(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;  // of kernels: some hundreds
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

void note_launch(const char* name) {
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  g_names[count % kKept].store(name, std::memory_order_relaxed);
  g_count.store(count + 1, std::memory_order_relaxed);
}

int32_t last_launches(const char** names, int32_t most) {
  int32_t found = 0;
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  for (uint32_t back = 1; back <= kKept && found < most; ++back) {
    const char* const name = g_names[(count - back) % kKept].load(std::memory_order_relaxed);
    if (name == nullptr) break;
    if (std::find(names, names + found, name) == names + found) names[found++] = name;
  }
  return found;
}

}  // namespace gabbro::gpu
