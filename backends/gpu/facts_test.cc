#include "backends/gpu/facts.h"

#include <gtest/gtest.h>

#include <string>

namespace gabbro::gpu {
namespace {

TEST(Facts, TextThatDoesNotFitIsCutOff) {
  abi::DeviceFacts facts{};
  set_text(facts.name, "Radeon");
  EXPECT_STREQ(facts.name, "Radeon");
  set_text(facts.name, std::string(sizeof facts.name - 1, 'x'));
  EXPECT_EQ(std::string(facts.name).size(), sizeof facts.name - 1);
  set_text(facts.name, std::string(1000, 'x'));
  EXPECT_EQ(std::string(facts.name).size(), sizeof facts.name - 1);
  set_text(facts.name, "");
  EXPECT_STREQ(facts.name, "");
}

TEST(Facts, PciAddressesAreWrittenAsTheKernelDoes) {
  abi::DeviceFacts facts{};
  set_pci_address(facts, "0000:C4:00.0");
  EXPECT_STREQ(facts.pci_address, "0000:c4:00.0");
  set_pci_address(facts, "0000:03:1f.7");
  EXPECT_STREQ(facts.pci_address, "0000:03:1f.7");
}

}  // namespace
}  // namespace gabbro::gpu
