#include "src/backend/discovery/card.h"

#include <gmock/gmock.h>

#include "src/backend/discovery/test_tree.h"

namespace gabbro::discovery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kGib = uint64_t{1} << 30;

TEST(Kfd, NamesOfTargets) {
  // From LLVM's list of AMDGPU processors, and the numbers that the kernel gives them.
  const std::pair<uint64_t, const char*> targets[] = {
      {80003, "gfx803"},   {90000, "gfx900"},   {90006, "gfx906"},   {90008, "gfx908"},
      {90010, "gfx90a"},   {90012, "gfx90c"},   {90402, "gfx942"},   {90500, "gfx950"},
      {100100, "gfx1010"}, {100300, "gfx1030"}, {100306, "gfx1036"}, {110000, "gfx1100"},
      {110003, "gfx1103"}, {110501, "gfx1151"}, {120000, "gfx1200"}, {120001, "gfx1201"}};
  for (const auto& [number, name] : targets) EXPECT_EQ(gfx_name(number), name);
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{9999}, uint64_t{90099}, uint64_t{1000000}, UINT64_MAX}) {
    EXPECT_EQ(gfx_name(wrong), "") << wrong;
  }
}

struct Expected {
  const char *tree, *architecture, *name;
  int compute_units, wave_size;
  uint64_t vram;
};

// Compute units and memory as AMD's data sheets give them.
TEST(Card, DiscreteCards) {
  const Expected cards[] = {{"rdna2", "gfx1030", "RX 6800/6800 XT", 72, 32, 16 * kGib},
                            {"rdna3", "gfx1100", "RX 7900", 96, 32, 24 * kGib},
                            {"rdna4", "gfx1201", "RX 9070", 64, 32, 16 * kGib},
                            {"mi210", "gfx90a", "Instinct MI210", 104, 64, 64 * kGib}};
  for (const Expected& expected : cards) {
    SCOPED_TRACE(expected.tree);
    const std::vector<Card> found = read_cards(recorded(expected.tree));
    ASSERT_THAT(found, SizeIs(1));
    const Card& card = found[0];
    EXPECT_EQ(card.architecture(), expected.architecture);
    EXPECT_EQ(card.id(), "pci:0000:03:00.0");
    EXPECT_EQ(card.backend(), "rocm");
    EXPECT_EQ(card.uuid, "GPU-1000000000000001");
    EXPECT_EQ(card.kfd->compute_units, expected.compute_units);
    EXPECT_EQ(card.kfd->wave_size, expected.wave_size);
    EXPECT_EQ(card.kfd->local_bytes, expected.vram);
    EXPECT_EQ(card.pci.vram.total, expected.vram);
    EXPECT_EQ(card.pci.vram.used, kGib / 2);
    EXPECT_EQ(card.pci.render_node, "/dev/dri/renderD128");
    EXPECT_EQ(card.pci.link.width, 16);
    EXPECT_EQ(card.pci.watts, 17.0);
    EXPECT_TRUE(card.kfd->atomics && card.kfd->large_bar);
    EXPECT_FALSE(card.integrated);
    EXPECT_EQ(card.pci.driver, "amdgpu");
    EXPECT_THAT(card.pci.name, HasSubstr(expected.name));
  }
}

TEST(Card, EightAcceleratorsInTheOrderOfTheirNodes) {
  const std::vector<Card> cards = read_cards(recorded("mi300x_8"));
  ASSERT_THAT(cards, SizeIs(8));
  for (size_t i = 0; i < cards.size(); ++i) {
    EXPECT_EQ(cards[i].kfd->number, static_cast<int>(i) + 4);  // 10 and 11 after 9
    EXPECT_EQ(cards[i].architecture(), "gfx942");
    EXPECT_EQ(cards[i].kfd->compute_units, 304);
    EXPECT_FALSE(cards[i].integrated);
  }
  EXPECT_EQ(cards[7].id(), "pci:0000:f5:00.0");
  EXPECT_EQ(cards[7].pci.render_node, "/dev/dri/renderD135");
}

TEST(Card, IntegratedOnes) {
  const std::vector<Card> apu = read_cards(recorded("apu"));
  ASSERT_THAT(apu, SizeIs(1));
  EXPECT_EQ(apu[0].architecture(), "gfx1151");
  EXPECT_TRUE(apu[0].integrated);
  EXPECT_EQ(apu[0].pci.gtt.total, 96 * kGib);
  const std::vector<Card> both = read_cards(recorded("igpu_and_dgpu"));
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_FALSE(both[0].integrated);
  EXPECT_TRUE(both[1].integrated);
  EXPECT_TRUE(is_integrated_target("gfx942", 0x74a0));   // MI300A
  EXPECT_FALSE(is_integrated_target("gfx942", 0x74a1));  // MI300X
}

TEST(Card, WithoutDriverOrOfAnotherMakerOrNone) {
  const std::vector<Card> bare = read_cards(recorded("no_driver"));
  ASSERT_THAT(bare, SizeIs(1));
  EXPECT_EQ(bare[0].pci.driver, "");
  EXPECT_FALSE(bare[0].kfd);
  EXPECT_EQ(bare[0].architecture(), "");
  const std::vector<Card> nvidia = read_cards(recorded("nvidia"));
  ASSERT_THAT(nvidia, SizeIs(1));
  EXPECT_EQ(nvidia[0].backend(), "cuda");
  EXPECT_EQ(nvidia[0].pci.name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(nvidia[0].uuid, "GPU-1c2d3e4f-0000-1111-2222-333344445555");
  EXPECT_THAT(read_cards(recorded("no_gpu")), IsEmpty());
}

TEST(Card, FoundThroughDrmWhereTheBusIsNotShown) {
  TestTree tree("rdna3");
  std::filesystem::create_directories(tree.path("sys/class/drm/card1"));
  std::filesystem::rename(tree.path("sys/bus/pci/devices/0000:03:00.0"), tree.path("sys/class/drm/card1/device"));
  const std::vector<Card> cards = read_cards(tree.root());
  ASSERT_THAT(cards, SizeIs(1));
  EXPECT_EQ(cards[0].id(), "pci:0000:03:00.0");
  EXPECT_EQ(cards[0].pci.vram.total, 24 * kGib);
  EXPECT_EQ(cards[0].architecture(), "gfx1100");
  tree.remove("sys/class/drm");
  ASSERT_THAT(read_cards(tree.root()), SizeIs(1));  // what the compute driver shows is enough
  EXPECT_EQ(read_cards(tree.root())[0].pci.render_node, "/dev/dri/renderD128");
}

TEST(Card, PartitionsAreSeparateCards) {
  TestTree tree("mi210");
  const std::string nodes = "sys/class/kfd/kfd/topology/nodes/";
  std::string properties = *tree.root().read("/" + nodes + "1/properties");
  properties.replace(properties.find("location_id 768"), 15, "location_id " + std::to_string((1ULL << 28) + 768));
  tree.write(nodes + "2/properties", properties);
  const std::vector<Card> cards = read_cards(tree.root());
  ASSERT_THAT(cards, SizeIs(2));
  EXPECT_EQ(cards[1].kfd->partition, 1);
  EXPECT_EQ(cards[1].pci.address, "0000:03:00.0");
}

TEST(Card, NamesWithoutTheListOfPciDevices) {
  TestTree tree("rdna3");
  tree.remove("usr");
  EXPECT_EQ(read_cards(tree.root())[0].pci.name, "AMD GPU (1002:744c)");
  tree.write("sys/bus/pci/devices/0000:03:00.0/product_name", "Radeon PRO W7900\n");
  EXPECT_EQ(read_cards(tree.root())[0].pci.name, "Radeon PRO W7900");
}

TEST(Card, ANameOfAnotherMakersListIsNotTaken) {
  TestTree tree("rdna3");
  tree.write("usr/share/misc/pci.ids",
             "1001  Kolter\n\t744c  Wrong\n1002  AMD\n\t1111  Other\n1003  ULSI\n\t744c  Wrong\n");
  EXPECT_EQ(read_cards(tree.root())[0].pci.name, "AMD GPU (1002:744c)");
}

TEST(Pci, Addresses) {
  EXPECT_EQ(normalized_pci_address("0000:03:00.0"), "0000:03:00.0");
  EXPECT_EQ(normalized_pci_address("C4:00.1"), "0000:c4:00.1");
  for (const char* wrong : {"", "3", "0000:03:00", "0000:03:00.8", "0000:0g:00.0", "00000:03:00.0", "03-00.0"}) {
    EXPECT_EQ(normalized_pci_address(wrong), "") << wrong;
  }
}

TEST(Kfd, WithoutAtomicsOrLargeBarOrHidden) {
  TestTree tree("rdna3");
  const std::string node = "sys/class/kfd/kfd/topology/nodes/1/";
  tree.write(node + "io_links/0/properties", "type 2\nflags 13\n");  // enabled, no 32-bit and no 64-bit atomics
  tree.write(node + "mem_banks/0/properties", "heap_type 2\nsize_in_bytes 25769803776\n");
  const KfdNode gpu = read_kfd_topology(tree.root()).gpus.at(0);
  EXPECT_FALSE(gpu.atomics);
  EXPECT_FALSE(gpu.large_bar);
  tree.remove(node + "properties");  // as a device cgroup shows it
  EXPECT_THAT(read_kfd_topology(tree.root()).unreadable, ElementsAre(1));
  EXPECT_TRUE(read_cards(tree.root()).at(0).compute_hidden);
}

}  // namespace
}  // namespace gabbro::discovery
