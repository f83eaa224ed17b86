#include "src/text/chat/generic_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gabbro::text {
namespace {

using testing::HasSubstr;
using ToolJson = nlohmann::ordered_json;

const ToolJson kTools = ToolJson::parse(R"([{"type": "function", "function": {"name": "look", "parameters": {}}}])");

TEST(GenericTools, AreDescribedInTheSystemMessage) {
  const ToolJson user = {{"role", "user"}, {"content", "hi"}};
  ToolJson made = with_generic_tools(ToolJson::array({user}), kTools);
  EXPECT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0]["role"], "system");
  EXPECT_THAT(made[0]["content"].get<std::string>(), HasSubstr(R"({"name":"look","parameters":{}})"));
  EXPECT_EQ(made[1], user);
  made = with_generic_tools(ToolJson::array({{{"role", "system"}, {"content", "Be brief."}}, user}), kTools);
  EXPECT_EQ(made.size(), 2U);
  EXPECT_THAT(made[0]["content"].get<std::string>(), testing::StartsWith("Be brief.\n\n"));
}

TEST(GenericTools, CallsAndResultsAreText) {
  const ToolJson messages = ToolJson::parse(R"([
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"city": "Rome"}}},
      {"id": "c2", "type": "function", "function": {"name": "count", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "c2", "content": "5"},
    {"role": "user", "content": "and now?"}])");
  const ToolJson made = with_generic_tools(messages, kTools);
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(made[2]["content"],
            "I look.\n{\"tool_calls\": [{\"name\":\"look\",\"arguments\":{\"city\":\"Rome\"}},"
            "{\"name\":\"count\",\"arguments\":{}}]}");
  EXPECT_EQ(made[3]["role"], "user");
  EXPECT_EQ(made[3]["content"], "The result of look:\nsunny\n\nThe result of count:\n5\n\nand now?");
  // Messages of another form do not end it.
  for (const char* const odd : {R"([{"role": "tool"}])", R"([{"role": "assistant", "tool_calls": [5]}])", R"([5])"})
    EXPECT_FALSE(with_generic_tools(ToolJson::parse(odd), kTools).empty()) << odd;
}

}  // namespace
}  // namespace gabbro::text
