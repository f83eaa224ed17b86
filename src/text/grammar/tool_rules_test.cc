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

TEST(ToolRules, ThoughtsMayComeFirstAndHoldNoCalls) {
  const std::string f = call(R"({"name": "f", "arguments": {"a": 7}})"), thoughts = "<think>\na <tool_call> {</think>";
  for (const bool is_required : {false, true}) {
    const std::string source = hermes(is_required ? R"("required": true)" : R"("required": false)");
    TestGrammar optional({.kind = kCalls, .source = source, .after = "</think>", .optional_begin = "<think>"});
    for (const std::string& text : {f, thoughts + f, thoughts + "\n\n" + f})
      EXPECT_TRUE(optional.accepts(text)) << text;
    for (const std::string& text : {thoughts + "<tool_call>x", "x" + thoughts})
      EXPECT_FALSE(optional.accepts(text)) << text;
    EXPECT_EQ(optional.accepts(thoughts + "\n\nyes"), !is_required);
    EXPECT_EQ(optional.accepts("yes"), !is_required);
    TestGrammar open({.kind = kCalls, .source = source, .after = "</think>"});
    EXPECT_TRUE(open.accepts("a <tool_call></think>" + f));
    EXPECT_FALSE(open.accepts(f));
  }
}

TEST(ToolRules, RequiredCallsInTheFormsOfOtherFamilies) {
  const auto accepts = [](const char* format, const std::string& text) {
    return TestGrammar(kCalls, R"({"format": ")" + std::string(format) + R"(", "required": true, )" + kTools + "}")
        .accepts(text);
  };
  for (const auto& [format, text] : std::vector<std::pair<const char*, std::string>>{
           {"mistral_list", R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 7}}, {"name": "g", "arguments": {}}])"},
           {"mistral", R"([TOOL_CALLS]f[ARGS]{"a": 7}[TOOL_CALLS]g[ARGS]{})"},
           {"phi4", R"(functools[{"name": "f", "arguments": {"a": 7}}])"},
           {"granite", R"(<|tool_call|>[{"name": "f", "arguments": {"a": 7}}])"},
           {"command", R"(<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 7}}]<|END_ACTION|>)"},
           {"deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
            "7}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
           {"kimi",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 7}"
            "<|tool_call_end|><|tool_calls_section_end|>"},
           {"harmony", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 7}"}}) {
    EXPECT_TRUE(accepts(format, text)) << text;
    EXPECT_FALSE(accepts(format, "I look. " + text)) << text;
    EXPECT_FALSE(accepts(format, text + " ")) << text;
  }
  EXPECT_FALSE(accepts("mistral", R"([TOOL_CALLS]f[ARGS]{"b": 7})"));
  TestGrammar mistral(kCalls, R"({"format": "mistral", )" + kTools + "}");
  EXPECT_TRUE(mistral.accepts(R"(I look. [TOOL_CALLS]f[ARGS]{"a": 7}[TOOL_CALLS]g[ARGS]{})"));
  EXPECT_FALSE(mistral.begins(R"(I look. [TOOL_CALLS]f[ARGS]{"b)"));
  EXPECT_THROW(accepts("none", ""), Error);
}

// The generic form begins with an object of JSON, which models write with other white space too.
TEST(ToolRules, GenericCallsBeginInAllSpellings) {
  TestGrammar required(kCalls, R"({"format": "generic", "required": true, )" + kTools + "}");
  TestGrammar free(kCalls, R"({"format": "generic", )" + kTools + "}");
  const std::string list = R"([{"name": "f", "arguments": {"a": 7}}]})";
  EXPECT_TRUE(required.accepts("{\"tool_calls\": " + list));
  for (const char* const begin :
       {"{\"tool_calls\": ", "{\"tool_calls\":", "{ \"tool_calls\" : ", "{\n\t\"tool_calls\":\n"}) {
    EXPECT_TRUE(free.accepts("I look.\n" + (begin + list))) << begin;
    EXPECT_FALSE(free.begins(std::string(begin) + R"([{"name": "x)")) << begin;
    EXPECT_FALSE(free.accepts(begin)) << begin;
  }
  for (const char* const text : {"{\"tool_calls\"}", "{ \"tool\": 1}", "\"tool_calls\": 5", "{a \"tool_calls\": 5"})
    EXPECT_TRUE(free.accepts(text)) << text;
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
