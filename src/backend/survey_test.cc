#include "src/backend/survey.h"

#include <gtest/gtest.h>

#include "src/backend/discovery/test_tree.h"
#include "src/base/set_text.h"

namespace gabbro {
namespace {

using discovery::machine;
using discovery::TestTree;

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

// Facts as HIP gives them.
abi::DeviceFacts facts_at(const char* address, uint64_t total, uint64_t free, bool integrated = false) {
  abi::DeviceFacts facts{.memory_total = total, .memory_free = free, .integrated = integrated};
  set_text(facts.pci_address, address);
  return facts;
}

// HIP counts compute alone: of a card whose desktop takes 6 GiB it says that all is free.
TEST(CorrectMemory, ADesktopsMemoryIsNotFree) {
  TestTree tree("rdna3");
  tree.write("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used", std::to_string(6 * kGibibyte));
  abi::DeviceFacts facts = facts_at("0000:03:00.0", 24 * kGibibyte, 24 * kGibibyte);
  correct_memory(facts, tree.machine());
  EXPECT_EQ(facts.memory_total, 24 * kGibibyte);
  EXPECT_EQ(facts.memory_free, 18 * kGibibyte);
  facts = facts_at("0000:03:00.0", 24 * kGibibyte, 10 * kGibibyte);
  correct_memory(facts, tree.machine());
  EXPECT_EQ(facts.memory_free, 10 * kGibibyte) << "the lesser of both";
}

TEST(CorrectMemory, AnApusIsOfBothPools) {
  abi::DeviceFacts facts = facts_at("0000:c4:00.0", kGibibyte / 2, kGibibyte / 4, true);
  const discovery::Machine apu = machine("apu");
  correct_memory(facts, apu);
  EXPECT_EQ(facts.memory_total, kGibibyte / 2 + 96 * kGibibyte);
  EXPECT_EQ(facts.memory_free, kGibibyte / 2 - (128 << 20) + 80 * kGibibyte - discovery::host_reserve(apu.memory));
}

TEST(CorrectMemory, FactsOfOtherDevicesStay) {
  abi::DeviceFacts facts = facts_at("0000:99:00.0", 8 * kGibibyte, 7 * kGibibyte);
  correct_memory(facts, machine("rdna3"));
  EXPECT_EQ(facts.memory_free, 7 * kGibibyte);
}

}  // namespace
}  // namespace gabbro
