#include "src/text/grammar/tool_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/text/grammar/test_grammar.h"

namespace gabbro::text::grammar {
namespace {

constexpr auto kCalls = OutputFormat::Kind::kToolCalls;
const std::string kTools =
    R"("tools": [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "strict": true}, {"name": "g"}, {"name": "h", "parameters": {"properties": {"b": {"type": "string"}}}}])";

std::string hermes(const char* fields) {
  return R"({"format": "hermes", )" + std::string(fields) + ", " + kTools + "}";
}
std::string call(const char* object) { return "<tool_call>\n" + std::string(object) + "\n</tool_call>"; }

TEST(ToolRules, ARequiredCallIsTheWholeAnswer) {
  const std::string f = call(R"({"name": "f", "arguments": {"a": 7}})"), g = call(R"({"name": "g", "arguments": {}})");
  TestGrammar several(kCalls, hermes(R"("required": true)"));
  for (const std::string& text : {f, g, f + "\n" + g, call(R"({"name": "h", "arguments": {"b": "x", "c": [1]}})")})
    EXPECT_TRUE(several.accepts(text)) << text;
  for (const std::string& text :
       {std::string(), std::string("Hello"), " " + f, f + g + "x", f + f, call(R"({"name": "f", "arguments": {}})"),
        call(R"({"name": "x", "arguments": {}})"), call(R"({"name": "g", "arguments": {"a": 1}})"),
        call(R"({"name": "h", "arguments": 5})"), call(R"({"name": "f", "arguments": {"a": 7, "b": 8}})")})
    EXPECT_FALSE(several.accepts(text)) << text;
  TestGrammar one(kCalls, hermes(R"("required": true, "parallel": false)"));
  EXPECT_TRUE(one.accepts(f));
  EXPECT_FALSE(one.begins(f + "\n"));
}

TEST(ToolRules, OtherAnswersAreFreeUntilACallBegins) {
  const std::string f = call(R"({"name": "f", "arguments": {"a": 7}})");
  TestGrammar several(kCalls, hermes(R"("required": false)")), one(kCalls, hermes(R"("parallel": false)"));
  for (const std::string& text :
       {std::string(), std::string("a < b <tool_cal {\"name\": 5}\n\xC3\xA9"), f, "I look.\n" + f}) {
    EXPECT_TRUE(several.accepts(text)) << text;
    EXPECT_TRUE(one.accepts(text)) << text;
  }
  EXPECT_TRUE(several.accepts(f + "\n" + f + " Done."));
  EXPECT_FALSE(one.begins(f + "\n"));
  EXPECT_FALSE(several.begins("text <tool_call>x"));
  EXPECT_FALSE(several.accepts("text <tool_call>"));
  EXPECT_FALSE(several.begins(f + call(R"({"name": "x)")));
}

TEST(ToolRules, Llama3CallsAreObjects) {
  TestGrammar required(kCalls, R"({"format": "llama3", "required": true, )" + kTools + "}");
  TestGrammar free(kCalls, R"({"format": "llama3", )" + kTools + "}");
  const std::string f = R"({"name": "f", "parameters": {"a": 7}})";
  EXPECT_TRUE(required.accepts(f));
  EXPECT_TRUE(free.accepts(f));
  EXPECT_FALSE(required.begins("Hello"));
  EXPECT_TRUE(free.accepts("Hello {\"name\": 5}"));
  EXPECT_TRUE(free.accepts("{\"city\": \"Rome\"}"));
  EXPECT_FALSE(free.begins(R"({"name": "x)"));
}

TEST(ToolRules, SchemasAreRefusedWithTheToolAndThePointer) {
  EXPECT_THAT(
      refusal(kCalls,
              R"({"format": "hermes", "tools": [{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}]})"),
      testing::AllOf(testing::HasSubstr("tool 'f'"), testing::HasSubstr("#/properties/a/not")));
  EXPECT_THAT(refusal(kCalls, "[]"), testing::HasSubstr("not one"));
}

}  // namespace
}  // namespace gabbro::text::grammar
