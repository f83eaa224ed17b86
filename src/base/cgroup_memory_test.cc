#include "src/base/cgroup_memory.h"

#include <gtest/gtest.h>

#include <map>

namespace gabbro {
namespace {

using GroupFiles = std::map<std::string, std::string>;

AvailableMemory memory_with(const GroupFiles& files) {
  return within_control_groups({16000, 9000}, [&](const std::string& path) {
    const auto found = files.find(path);
    return found != files.end() ? found->second : std::string();
  });
}

void expect_memory(const GroupFiles& files, uint64_t total, uint64_t free) {
  const AvailableMemory memory = memory_with(files);
  EXPECT_EQ(memory.total, total);
  EXPECT_EQ(memory.free, free);
}

TEST(CgroupMemory, WithoutALimitItIsTheMachines) {
  expect_memory({}, 16000, 9000);
  expect_memory({{"/proc/self/cgroup", "nonsense\n0::/box\n"}, {"/sys/fs/cgroup/box/memory.max", "max\n"}}, 16000,
                9000);
  expect_memory({{"/proc/self/cgroup", "4:memory:/\n"},
                 {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                 {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "15000\n"}},
                16000, 9000);
}

TEST(CgroupMemory, Version2) {
  GroupFiles files = {{"/proc/self/cgroup", "0::/outer/inner\n"},
                      {"/sys/fs/cgroup/outer/inner/memory.max", "4000\n"},
                      {"/sys/fs/cgroup/outer/inner/memory.current", "1000\n"}};
  expect_memory(files, 4000, 3000);
  // Pages of files are dropped when memory is wanted.
  files["/sys/fs/cgroup/outer/inner/memory.stat"] = "anon 100\ninactive_file 500\nactive_file 100\n";
  expect_memory(files, 4000, 3600);
  files["/sys/fs/cgroup/outer/inner/memory.current"] = "9000\n";
  expect_memory(files, 4000, 0);
  files["/sys/fs/cgroup/outer/inner/memory.current"] = "1000\n";
  files["/sys/fs/cgroup/outer/inner/memory.high"] = "3000\n";  // beyond it the process is held up
  expect_memory(files, 3000, 2600);
  // A larger group that is nearly full leaves less.
  files["/sys/fs/cgroup/outer/memory.max"] = "8000\n";
  files["/sys/fs/cgroup/outer/memory.current"] = "7500\n";
  expect_memory(files, 3000, 500);
}

TEST(CgroupMemory, Version1) {
  GroupFiles files = {{"/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n"},
                      {"/sys/fs/cgroup/cpu,memory/box/memory.limit_in_bytes", "2000\n"},
                      {"/sys/fs/cgroup/cpu,memory/box/memory.usage_in_bytes", "900\n"}};
  expect_memory(files, 2000, 1100);
  files["/sys/fs/cgroup/cpu,memory/box/memory.stat"] =
      "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 50\n";
  expect_memory(files, 2000, 1450);
}

// A container whose /sys/fs/cgroup is its own group, while /proc names the path on the machine.
TEST(CgroupMemory, AGroupThatIsMountedAtTheTop) {
  expect_memory({{"/proc/self/cgroup", "4:memory:/docker/0123\n"},
                 {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"},
                 {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n"}},
                2000, 1500);
  expect_memory({{"/proc/self/cgroup", "0::/../../init.scope\n"},
                 {"/sys/fs/cgroup/memory.max", "2000\n"},
                 {"/sys/fs/cgroup/memory.current", "500\n"}},
                2000, 1500);
}

}  // namespace
}  // namespace gabbro
