#include "src/server/http/access.h"

#include <gtest/gtest.h>

#include "src/server/http/url.h"

namespace gabbro::server {
namespace {

// Printed by "printf 'a-key-of-tests-1' | sha256sum".
constexpr const char* kSha256 = "fffa98e0960fcbb078ebdc839c36c69574c5542373a8916c8524e6776ecf2c40";

std::string refusal_of(const std::string& text) {
  try {
    parse_keys(text, "keys.txt");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Keys, AreReadByLine) {
  const auto keys = parse_keys("# comment\n\n alice : a-key-of-tests-1 \r\nanother-key-of-tests\n", "keys.txt");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[1].name, "line 4");
  EXPECT_EQ(keys[0].sha256, kSha256);
  // A digest stands for itself.
  EXPECT_EQ(parse_keys("bob:" + keys[0].sha256, "keys.txt")[0].sha256, keys[0].sha256);
}

TEST(Keys, RefusalsNameFileAndLine) {
  EXPECT_EQ(refusal_of("# none\n"), "keys.txt: has no key");
  EXPECT_EQ(refusal_of("\nshort\n"), "keys.txt: line 2: a key has at least 16 characters");
  EXPECT_EQ(refusal_of(":a-key-of-tests-1"), "keys.txt: line 1: the key has no name");
  EXPECT_EQ(refusal_of("a:a-key-of-tests-1\na:a-key-of-tests-2"), "keys.txt: line 2: the name a is there twice");
}

TEST(Keys, HaveScopesModelsAndLimits) {
  const auto keys = parse_keys(
      "a-key-of-tests-1\n"
      "bob: a-key-of-tests-2  scopes=metrics,admin requests=60 models=llama:8b,qwen tokens=9000 concurrent=3\n"
      "a-key-of-tests-3 models=llama:8b\n",
      "keys.txt");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_TRUE(keys[0].infers && keys[0].sees_metrics && !keys[0].manages);
  EXPECT_EQ(keys[0].limits, KeyLimits{});
  EXPECT_TRUE(!keys[1].infers && keys[1].sees_metrics && keys[1].manages);
  EXPECT_EQ(keys[1].limits, (KeyLimits{.requests = 60, .tokens = 9000, .concurrent = 3}));
  EXPECT_EQ(keys[1].models, (std::vector<std::string>{"llama:8b", "qwen"}));
  EXPECT_EQ(keys[2].name, "line 3");
  EXPECT_EQ(keys[2].models, (std::vector<std::string>{"llama:8b"}));
  EXPECT_EQ(refusal_of("a-key-of-tests-1 scopes=root"),
            "keys.txt: line 1: the scope 'root' is not infer, metrics or admin");
  for (const char* const option : {"requests=0", "tokens=-1", "concurrent=x", "requests=", "requests=1.5"})
    EXPECT_EQ(refusal_of(std::string("a-key-of-tests-1 ") + option),
              std::string("keys.txt: line 1: ") + option + " is not a number from 1 on");
  EXPECT_EQ(refusal_of("a-key-of-tests-1 speed=9"),
            "keys.txt: line 1: 'speed=9' is not scopes=, models=, requests=, tokens= or concurrent=");
  EXPECT_EQ(refusal_of("a-key-of-tests-1 models="), "keys.txt: line 1: models= names no model");
}

int status_of_host(const AccessOptions& options, const std::string& host) {
  HttpRequest request{.method = "GET", .path = "/v1/models", .headers = {{"host", host}}};
  const auto response = Access(options).check(request);
  return response ? response->status : 200;
}

TEST(Hosts, OfAnAddressThatOthersReach) {
  const AccessOptions open{.is_loopback = false};
  EXPECT_EQ(status_of_host(open, "10.0.0.1:80"), 200);
  EXPECT_EQ(status_of_host(open, "[fe80::1]"), 200);
  EXPECT_EQ(status_of_host(open, "evil.example"), 403);
  // A key is what a page that rebinds its name does not have.
  AccessOptions with_key = open;
  with_key.keys = parse_keys("a-key-of-tests-1", "keys.txt");
  EXPECT_EQ(status_of_host(with_key, "box.example"), 401);
}

TEST(Targets, AreSplitAndDecoded) {
  const auto split = [](std::string_view target) {
    std::string path, query;
    split_target(target, path, query);
    return path + "|" + query;
  };
  EXPECT_EQ(split("/v1/models/a%2Fb?x=%20"), "/v1/models/a/b|x=%20");
  EXPECT_EQ(split("/a%zz%4"), "/a%zz%4|");
  EXPECT_EQ(split("/?"), "/|");
  EXPECT_EQ(split(""), "|");
}

TEST(RequestIds, AreShortAndPlain) {
  EXPECT_TRUE(is_request_id("aZ09_-"));
  EXPECT_FALSE(is_request_id(""));
  EXPECT_FALSE(is_request_id("a b"));
  EXPECT_FALSE(is_request_id(std::string(65, 'a')));
  EXPECT_TRUE(is_request_id(random_id("req_")));
  EXPECT_NE(random_id("req_"), random_id("req_"));
}

}  // namespace
}  // namespace gabbro::server
