// Machines of our own making: a folder with the files of /proc and /sys that Host reads.
#include "backends/cpu/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace gabbro::cpu {
namespace {

class HostTest : public ::testing::Test {
 protected:
  HostTest() : root_(std::filesystem::temp_directory_path() / ("gabbro_host_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:    9000 kB\n");
  }
  ~HostTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_.string() + path).substr(0, (root_.string() + path).rfind('/')));
    std::ofstream(root_.string() + path) << text;
  }
  void siblings(int processor, const std::string& list) {
    write("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list", list + "\n");
  }
  Host host() const { return Host(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(HostTest, NamesTheProcessor) {
  EXPECT_EQ(host().processor_name(), "CPU");
  write("/proc/cpuinfo", "processor\t: 0\nmodel name\t:  Some CPU: fast \nmodel\t: 17\n");
  EXPECT_EQ(host().processor_name(), "Some CPU: fast");
}

TEST_F(HostTest, CountsCoresNotThreads) {
  EXPECT_EQ(host().cores({0, 1, 5}), 3) << "without topology each processor counts";
  for (const int processor : {0, 1}) siblings(processor, "0-1");
  for (const int processor : {2, 3}) siblings(processor, "2-3");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 2);
  EXPECT_EQ(host().cores({0, 1}), 1);
  EXPECT_EQ(host().cores({1, 2}), 2);
  EXPECT_EQ(host().cores({}), 1);
}

TEST_F(HostTest, QuotaLimitsCores) {
  write("/proc/self/cgroup", "0::/outer/inner\n");
  write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 4);
  write("/sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 2) << "1.5 processors, from an ancestor";
  write("/sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 1);
}

TEST_F(HostTest, QuotaOfVersion1) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/box\nnonsense\n");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 4);
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(host().cores({0, 1, 2, 3}), 3);
}

TEST_F(HostTest, MemoryIsTheSmallerOfMachineAndCgroup) {
  EXPECT_EQ(host().memory().total, 16000u * 1024);
  EXPECT_EQ(host().memory().free, 9000u * 1024);
  write("/proc/self/cgroup", "0::/box\n");
  write("/sys/fs/cgroup/box/memory.max", "max\n");
  EXPECT_EQ(host().memory().total, 16000u * 1024);
  write("/sys/fs/cgroup/box/memory.max", "4096000\n");
  write("/sys/fs/cgroup/box/memory.current", "1096000\n");
  EXPECT_EQ(host().memory().total, 4096000u);
  EXPECT_EQ(host().memory().free, 3000000u);
  write("/sys/fs/cgroup/box/memory.current", "9096000\n");
  EXPECT_EQ(host().memory().free, 0u);
}

TEST_F(HostTest, MemoryOfVersion1) {
  write("/proc/self/cgroup", "9:memory:/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host().memory().total, 16000u * 1024);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  EXPECT_EQ(host().memory().free, 1500000u);
}

TEST(AllowedProcessors, AreAtLeastThisOne) { EXPECT_FALSE(allowed_processors().empty()); }

}  // namespace
}  // namespace gabbro::cpu
