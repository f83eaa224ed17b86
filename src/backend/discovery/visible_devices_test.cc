#include "src/backend/discovery/visible_devices.h"

#include <gmock/gmock.h>

#include "src/backend/discovery/test_tree.h"

namespace gabbro::discovery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Values = Environment::Values;

// The buses of the visible AMD cards, in the runtime's order, and the problems as one text.
struct Seen {
  std::vector<std::string> buses;
  std::string problems;
  size_t nvidia = 0;
};

Seen seen(const std::vector<Card>& cards, Values variables) {
  const Visibility visibility = visible_cards(cards, Environment(std::move(variables)));
  Seen result;
  for (const Card* card : visibility.amd) result.buses.push_back(card->pci.address.substr(5, 2));
  for (const std::string& problem : visibility.problems) result.problems += problem + "\n";
  result.nvidia = visibility.nvidia.size();
  return result;
}

Seen eight(Values variables) { return seen(read_cards(recorded("mi300x_8")), std::move(variables)); }

TEST(VisibleDevices, AllWithoutVariablesInTheRuntimesOrder) {
  EXPECT_THAT(eight({}).buses, ElementsAre("05", "15", "65", "75", "85", "95", "e5", "f5"));
  EXPECT_EQ(eight({}).problems, "");
  // The integrated one has the lower node number, so the runtime counts it first.
  EXPECT_THAT(seen(read_cards(recorded("igpu_and_dgpu")), {}).buses, ElementsAre("0e", "03"));
}

TEST(VisibleDevices, IndicesAndUuids) {
  const Seen picked = eight({{"HIP_VISIBLE_DEVICES", "7, 0"}});
  EXPECT_THAT(picked.buses, ElementsAre("f5", "05"));
  EXPECT_EQ(picked.problems, "");
  EXPECT_THAT(eight({{"ROCR_VISIBLE_DEVICES", "GPU-1000000000000005,2"}}).buses, ElementsAre("15", "65"));
  EXPECT_THAT(eight({{"ROCR_VISIBLE_DEVICES", "gpu-100000000000000B"}}).buses, ElementsAre("f5"));
  EXPECT_THAT(eight({{"ROCR_VISIBLE_DEVICES", "GPU-1"}}).buses, IsEmpty());  // the beginning of all of them
}

TEST(VisibleDevices, AnEntryThatNamesNothingEndsTheList) {
  const Seen picked = eight({{"HIP_VISIBLE_DEVICES", "1,8,2"}});
  EXPECT_THAT(picked.buses, ElementsAre("15"));
  EXPECT_THAT(picked.problems, HasSubstr("HIP_VISIBLE_DEVICES=1,8,2: '8' names none of the 8 AMD GPUs"));
  EXPECT_THAT(picked.problems, HasSubstr("what stands behind it is ignored"));
}

// A child process that gets the variables sees the chosen cards, whatever its parent's variables leave.
TEST(VisibleDevices, VariablesThatShowChosenCards) {
  for (const char* machine : {"mi300x_8", "igpu_and_dgpu"}) {
    for (const bool with_uuids : {true, false}) {
      std::vector<Card> cards = read_cards(recorded(machine));
      for (Card& card : cards) card.uuid = with_uuids ? card.uuid : "";
      const std::vector<const Card*> all = visible_cards(cards, Environment()).amd;
      for (const std::vector<const Card*>& chosen : {std::vector{all[1]}, std::vector{all[1], all[0]}}) {
        Values values = {{"HIP_VISIBLE_DEVICES", "0"}, {"GPU_DEVICE_ORDINAL", "7"}, {"CUDA_VISIBLE_DEVICES", "-1"}};
        for (const auto& [name, value] : variables_that_show(cards, chosen)) {
          values.erase(name);
          if (value) values[name] = *value;
        }
        const Visibility visibility = visible_cards(cards, Environment(values));
        EXPECT_EQ(visibility.amd, chosen) << machine;
        EXPECT_THAT(visibility.problems, IsEmpty());
      }
    }
  }
}

TEST(VisibleDevices, TheSecondCountsWhatTheFirstLeaves) {
  const Seen picked = eight({{"ROCR_VISIBLE_DEVICES", "4,5"}, {"HIP_VISIBLE_DEVICES", "1"}});
  EXPECT_THAT(picked.buses, ElementsAre("95"));
  EXPECT_THAT(picked.problems, HasSubstr("renumbers the cards before HIP_VISIBLE_DEVICES=1"));
  const Seen none = eight({{"ROCR_VISIBLE_DEVICES", "4"}, {"HIP_VISIBLE_DEVICES", "4"}});
  EXPECT_THAT(none.buses, IsEmpty());
  EXPECT_THAT(none.problems, HasSubstr("'4' names none of the 1 AMD GPUs that ROCR_VISIBLE_DEVICES leaves"));
}

TEST(VisibleDevices, EmptyAndMinusOneHideAll) {
  for (const char* variable : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    for (const char* value : {"", "-1"}) {
      const Seen none = eight({{variable, value}});
      EXPECT_THAT(none.buses, IsEmpty()) << variable;
      EXPECT_THAT(none.problems, HasSubstr(std::string(variable) + "=" + value + " hides every one of the 8 AMD GPUs"));
    }
  }
}

TEST(VisibleDevices, CudasVariableIsReadByHipToo) {
  EXPECT_THAT(eight({{"CUDA_VISIBLE_DEVICES", "3"}}).buses, ElementsAre("75"));
  const Seen both = eight({{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "2"}});
  EXPECT_THAT(both.buses, ElementsAre("65"));
  EXPECT_THAT(both.problems, HasSubstr("differ: AMD GPUs follow the first"));
  const Seen nvidia = seen(read_cards(recorded("nvidia")), {{"CUDA_VISIBLE_DEVICES", "1"}});
  EXPECT_EQ(nvidia.nvidia, 0U);
  EXPECT_THAT(nvidia.problems, HasSubstr("'1' names none of the 1 NVIDIA GPUs"));
  EXPECT_EQ(seen(read_cards(recorded("nvidia")), {{"HIP_VISIBLE_DEVICES", "5"}}).nvidia, 1U);
}

TEST(VisibleDevices, TheOldOrdinalIsNamed) {
  const Seen all = eight({{"GPU_DEVICE_ORDINAL", "1"}});
  EXPECT_EQ(all.buses.size(), 8U);
  EXPECT_THAT(all.problems, HasSubstr("GPU_DEVICE_ORDINAL=1 is read by OpenCL"));
}

TEST(VisibleDevices, OverriddenTargets) {
  const auto target = [](const char* value) {
    return overridden_target(Environment(Values{{"HSA_OVERRIDE_GFX_VERSION", value}}));
  };
  EXPECT_EQ(target("11.0.0"), "gfx1100");
  EXPECT_EQ(target("10.3.0"), "gfx1030");
  EXPECT_EQ(target("9.0.10"), "gfx90a");
  for (const char* wrong : {"", "11", "11.0", "gfx1100", "11.0.0.0", "a.b.c", "11.0.999"}) EXPECT_EQ(target(wrong), "");
  EXPECT_EQ(overridden_target(Environment()), "");
}

}  // namespace
}  // namespace gabbro::discovery
