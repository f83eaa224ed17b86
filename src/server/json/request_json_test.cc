#include "src/server/json/request_json.h"

#include <gtest/gtest.h>

namespace gabbro::server {
namespace {

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "none";
}

TEST(RequestJson, LastOfDuplicateMembersCounts) {
  EXPECT_EQ(parse_request(R"({"a": 1, "a": 2})").dump(), R"({"a":2})");
}

TEST(RequestJson, RefusesWhatIsNoObject) {
  for (const char* const body : {"", " ", "[]", "1", "null", "{", "{\"a\":}", "{\"a\":1}x", "{'a':1}", "{\"a\":NaN}"})
    EXPECT_NE(refusal_of([&] { parse_request(body); }), "none") << body;
}

TEST(RequestJson, BoundsAreExact) {
  const JsonLimits limits{.depth = 3, .members = 2, .elements = 5};
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":[[1]]})", limits); }), "none");
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":[[[1]]]})", limits); }), "the request nests deeper than 3 levels");
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":1,"b":2})", limits); }), "none");
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":1,"b":2,"c":3})", limits); }),
            "an object of the request has more than 2 members");
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":[1,2,3]})", limits); }), "none");
  EXPECT_EQ(refusal_of([&] { parse_request(R"({"a":[1,2,3,4]})", limits); }), "the request has more than 5 values");
}

TEST(RequestJson, TextsAreUtf8WithoutNul) {
  EXPECT_NE(refusal_of([] { parse_request("{\"a\":\"\xFF\"}"); }), "none");
  EXPECT_NE(refusal_of([] { parse_request(R"({"a":"\ud800"})"); }), "none");
  EXPECT_NE(refusal_of([] { parse_request(R"({"a":"x\u0000"})"); }), "none");
  EXPECT_NE(refusal_of([] { parse_request(R"({"a\u0000":1})"); }), "none");
  EXPECT_EQ(parse_request(R"({"a":"\ud83d\ude00"})")["a"], "😀");
}

TEST(Fields, NullIsAbsent) {
  const Json object = {{"a", nullptr}};
  Fields fields(object);
  EXPECT_FALSE(fields.text("a") || fields.boolean("a") || fields.integer("a", 0, 1) || fields.number("a", 0, 1));
  EXPECT_FALSE(fields.has("a") || fields.object("a") || fields.texts("a", 1) || fields.array("a", 1) != nullptr);
}

TEST(Fields, IntegersAreExact) {
  const auto read = [](const char* text, int64_t least, int64_t most) -> std::optional<int64_t> {
    const Json object = Json::parse(std::string("{\"a\":") + text + "}");
    Fields fields(object);
    try {
      return fields.integer("a", least, most);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.param(), "a");
      return std::nullopt;
    }
  };
  EXPECT_EQ(read("3", 0, 3), 3);
  EXPECT_EQ(read("3.0", 0, 3), 3);
  EXPECT_EQ(read("9223372036854775807", 0, INT64_MAX), INT64_MAX);
  EXPECT_EQ(read("-9223372036854775808", INT64_MIN, 0), INT64_MIN);
  for (const char* const wrong : {"4", "-1", "3.5", "\"3\"", "true", "[]", "1e300", "-1e300", "18446744073709551615",
                                  "9223372036854775808", "1e19"})
    EXPECT_FALSE(read(wrong, 0, 3)) << wrong;
  EXPECT_FALSE(read("18446744073709551615", INT64_MIN, INT64_MAX));
}

TEST(Fields, NamesPathsAndUnknownFields) {
  const Json object = Json::parse(R"({"a":{"b":5},"x":1,"y":2})");
  Fields fields(object);
  auto inner = fields.object("a");
  ASSERT_TRUE(inner);
  EXPECT_EQ(refusal_of([&] { inner->text("b"); }), "a.b: expected a string, got a number");
  fields.ignore({"y"});
  EXPECT_EQ(fields.unknown(), std::vector<std::string>{"x"});
}

TEST(Fields, TextsAreOneOrMany) {
  const Json object = Json::parse(R"({"a":"x","b":["x","y"],"c":["x",1],"d":1})");
  Fields fields(object);
  EXPECT_EQ(fields.texts("a", 2).value(), std::vector<std::string>{"x"});
  EXPECT_EQ(fields.texts("b", 2).value(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(refusal_of([&] { fields.texts("b", 1); }), "b: has 2 elements, more than 1");
  EXPECT_EQ(refusal_of([&] { fields.texts("c", 2); }), "c[1]: expected a string, got a number");
  EXPECT_EQ(refusal_of([&] { fields.texts("d", 2); }), "d: expected a string or an array of strings, got a number");
}

}  // namespace
}  // namespace gabbro::server
