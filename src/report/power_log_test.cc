#include "src/report/power_log.h"

#include <gtest/gtest.h>

#include "src/backend/discovery/test_tree.h"
#include "src/report/recorded_tree.h"

namespace gabbro::report {
namespace {

constexpr const char* kCard = "0000:03:00.0";

TEST(PowerLog, ReadsPowerClocksAndLoad) {
  discovery::TestTree tree("rdna3");
  const std::string folder = std::string("sys/bus/pci/devices/") + kCard;
  tree.write(folder + "/pp_dpm_sclk", "0: 500Mhz\n1: 2482Mhz *\n")
      .write(folder + "/pp_dpm_mclk", "0: 96Mhz *\n1: 1249Mhz\n");
  PowerSample sample = sample_power(tree.root(), kCard);
  EXPECT_EQ(sample.watts, 17);
  EXPECT_EQ(sample.core_mhz, 2482);
  EXPECT_EQ(sample.memory_mhz, 96);
  EXPECT_EQ(sample.busy_percent, 0);
  tree.write(folder + "/hwmon/hwmon3/freq1_input", "1900000000\n");  // more exact than the list of states
  EXPECT_EQ(sample_power(tree.root(), kCard).core_mhz, 1900);
  for (const char* other : {"", "0000:99:00.0"}) {
    sample = sample_power(tree.root(), other);
    EXPECT_EQ(sample.watts, -1);
    EXPECT_EQ(sample.busy_percent, -1);
  }
}

TEST(PowerLog, SamplesUntilItIsDestroyed) {
  const discovery::TestTree tree("rdna3");
  const PowerLog log(tree.root(), kCard), none(tree.root(), "0000:99:00.0");
  for (int i = 0; i < 600 && log.samples().size() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_GE(log.samples().size(), 2U);
  EXPECT_LT(log.samples()[0].seconds, log.samples()[1].seconds);
  EXPECT_TRUE(none.samples().empty());
}

TEST(RecordedTree, KeepsTheWordsOfGpusOnly) {
  EXPECT_EQ(gpu_words("BOOT_IMAGE=/vmlinuz root=UUID=1 quiet iommu=pt amdgpu.cwsr_enable=0 user=ada"),
            "iommu=pt amdgpu.cwsr_enable=0");
  EXPECT_EQ(gpu_words(""), "");
}

}  // namespace
}  // namespace gabbro::report
