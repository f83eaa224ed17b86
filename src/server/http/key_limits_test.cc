#include "src/server/http/key_limits.h"

#include <gtest/gtest.h>

namespace gabbro::server {
namespace {

using std::chrono::seconds;

TEST(KeyUse, RequestsOfAMinute) {
  KeyUse use;
  const KeyLimits limits{.requests = 6};
  const KeyUse::Clock::time_point start{};
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(use.begin("a", limits, start));
  const auto refused = use.begin("a", limits, start);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message, "the key may send 6 requests a minute");
  EXPECT_EQ(refused->retry_after, seconds(10));
  EXPECT_FALSE(use.begin("b", limits, start));
  EXPECT_TRUE(use.begin("a", limits, start + seconds(9)));
  EXPECT_FALSE(use.begin("a", limits, start + seconds(10)));
  EXPECT_TRUE(use.begin("a", limits, start + seconds(10)));
}

TEST(KeyUse, TokensOfAMinute) {
  KeyUse use;
  const KeyLimits limits{.tokens = 600};
  const KeyUse::Clock::time_point start{};
  use.count_tokens("a", 5, start);  // no request came
  EXPECT_FALSE(use.begin("a", limits, start));
  use.count_tokens("a", 1000, start);  // an answer may exceed it, and the next request waits
  const auto refused = use.begin("a", limits, start);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->retry_after, seconds(41));
  EXPECT_FALSE(use.begin("a", limits, start + seconds(41)));
}

TEST(KeyUse, RequestsAtOnce) {
  KeyUse use;
  const KeyLimits limits{.concurrent = 2};
  EXPECT_FALSE(use.begin("a", limits));
  EXPECT_FALSE(use.begin("a", limits));
  EXPECT_TRUE(use.begin("a", limits));
  use.end("a");
  EXPECT_FALSE(use.begin("a", limits));
  use.end("unknown");
}

}  // namespace
}  // namespace gabbro::server
