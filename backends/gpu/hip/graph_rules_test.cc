#include "backends/gpu/hip/graph_rules.h"

#include <gtest/gtest.h>

namespace gabbro::gpu::hip {
namespace {

TEST(GraphRules, GraphsAreOffWhereHipIsKnownToReplayThemWrongly) {
  for (const int version : {70200000, 70253211, 70299999}) {
    for (const char* target : {"gfx906", "gfx90a", "gfx942", "gfx950"})
      EXPECT_NE(graph_rules_of(version, target).off, "") << version << target;
    for (const char* target : {"gfx1100", "gfx1201"}) EXPECT_EQ(graph_rules_of(version, target).off, "") << target;
  }
  for (const int version : {60443484, 70151831, 70300000, 71450000})
    EXPECT_EQ(graph_rules_of(version, "gfx942").off, "") << version;
}

TEST(GraphRules, AreTestedAndFewEverywhere) {
  const api::GraphRules rules = graph_rules_of(70151831, "gfx1100");
  EXPECT_TRUE(rules.tested);
  EXPECT_EQ(rules.most, 16U);
  EXPECT_EQ(rules.spare, size_t{128} << 20);
}

}  // namespace
}  // namespace gabbro::gpu::hip
